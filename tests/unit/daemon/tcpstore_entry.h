// SPDX-License-Identifier: Apache-2.0
// The entry of TCPStore in the list of protocols, for tests.
#pragma once

#include <memory>
#include <utility>

#include "daemon/net/tcpstore_session.h"

namespace c10dd::daemon {

/// All connections see the run run-1 of the job torch.
inline std::shared_ptr<TcpStoreListener> tcpstore_listener(
    const SessionContext& context, std::shared_ptr<TcpStoreRuns> runs = nullptr,
    ListenerSettings settings = {}) {
  settings.tcpstore_job = "torch";
  if (!runs) runs = std::make_shared<FixedRun>("run-1");
  return std::make_shared<TcpStoreListener>(context, std::move(settings), std::move(runs));
}

inline WireProtocol tcpstore_entry(const SessionContext& context) {
  return tcpstore_protocol(tcpstore_listener(context));
}

}  // namespace c10dd::daemon
