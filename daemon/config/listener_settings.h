// SPDX-License-Identifier: Apache-2.0
// What a listener serves, and to whom. A daemon can have many listeners.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/config/address_ranges.h"
#include "daemon/config/protocol_names.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::daemon {

struct Options;

struct ListenerSettings {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any free port
  ProtocolSet protocols = ProtocolSet::all();
  std::string tcpstore_job;      ///< whose state the TCPStore connections see
  std::uint32_t world_size = 0;  ///< of the launch whose endpoint this is; 0: not known
  std::string tcpstore_run;      ///< the run that they see; empty: each launch has a run of its own
  /// Who may use TCPStore besides this machine: the protocol has no authentication.
  AddressRanges tcpstore_from;
  tcpstore::LegacyClients legacy = tcpstore::LegacyClients::detect;
};

/// The ports from `low` to `high`.
struct PortRange {
  std::uint16_t low = 0;
  std::uint16_t high = 0;
};

/// Returns the settings of the listeners that the options describe. There is a listener for metrics
/// if Options::listen_metrics is not empty.
ListenerSettings main_listener(const Options& options);
ListenerSettings metrics_listener(const Options& options);

}  // namespace c10dd::daemon
