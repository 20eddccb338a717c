// SPDX-License-Identifier: Apache-2.0
// The daemons that share an engine, and their heartbeats. A daemon beats at intervals; all daemons
// read each other's rows, and count for themselves how long another one has been silent
// (daemon/core/directory/fleet_view.h). No clock of the server takes part.
#pragma once

#include <boost/describe/class.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/relay_frame.h"
#include "store/engine.h"

namespace c10dd::store {

/// A daemon, as it describes itself.
struct DaemonFacts {
  std::uint64_t process = 0;           ///< OpenOptions::process
  std::vector<std::string> addresses;  ///< host:port, for clients
  std::string version;
  Duration lease{0};
  bool draining = false;  ///< it hands its jobs over, and takes no others
  /// What another daemon must know to pass connections on to it. A secret: never shown.
  native::RelayKey relay_key = {};
  bool tls = false;  ///< its addresses speak TLS

  bool operator==(const DaemonFacts&) const = default;
};
BOOST_DESCRIBE_STRUCT(DaemonFacts, (),
                      (process, addresses, version, lease, draining, relay_key, tls))

/// A daemon's row.
struct DaemonRow {
  DaemonFacts facts;
  std::uint64_t beats = 0;  ///< grows with each heartbeat
};

/// The state of the fleet, and of the whole engine, at one moment.
struct FleetReading {
  std::vector<DaemonRow> daemons;  ///< in the order of their process numbers
  Bytes incarnation;       ///< value of the directory's row of the incarnation; may be empty
  Revision directory = 0;  ///< revision of job 0
  /// Heartbeats of all daemons so far. Falls only if the server has lost its newest changes.
  std::uint64_t heartbeat_count = 0;
  std::string rolled_back;  ///< of report_rollback(), until accept_rollback(); empty: none
  Bytes accepted;           ///< newest incarnation of accept_rollback(); empty: none
};

/// A link to the rows of the fleet. One caller at a time; calls block.
class Fleet {
 public:
  virtual ~Fleet() = default;

  /// Reads the fleet without a heartbeat.
  virtual Result<FleetReading> read() = 0;
  /// Sends a heartbeat, and reads the fleet in the same step. The first one adds the daemon's row.
  virtual Result<FleetReading> beat(const DaemonFacts& self) = 0;
  /// Removes the row of a daemon that has sent exactly `beats` heartbeats. Any daemon may then
  /// claim its jobs.
  virtual Result<void> remove(std::uint64_t process, std::uint64_t beats) = 0;
  /// Returns the owner of each job, in order; nothing for a job that was released or never claimed.
  /// An owner may have left the fleet.
  virtual Result<std::vector<std::optional<Owner>>> owners(std::span<const JobNumber> jobs) = 0;

  /// Tells all daemons that the state has lost acknowledged changes; `what` names them. Has no
  /// effect if a daemon has told so before.
  virtual Result<void> report_rollback(std::string_view what) = 0;
  /// Tells all daemons that an operator has accepted the loss. `incarnation` is the value of the
  /// directory's row of the incarnation, which is new and durable.
  virtual Result<void> accept_rollback(const Bytes& incarnation) = 0;

  /// Identifies the server, as Engine::server() does.
  virtual std::string_view server() const = 0;
};

/// Opens a link to the fleet of a shared engine, redis://... Each call fails if the server is
/// silent for `patience`, at most 2 s. Fails as open_engine() does, and with `unsupported` if the
/// engine is not shared. `ca_file` is OpenOptions::redis_ca.
Result<std::unique_ptr<Fleet>> open_fleet(std::string_view url,
                                          Duration patience = std::chrono::seconds(2),
                                          std::string_view ca_file = {});

}  // namespace c10dd::store
