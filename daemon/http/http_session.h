// SPDX-License-Identifier: Apache-2.0
// Serves HTTP on one connection: the routes of route_table.h, with data from Operations.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>

#include "daemon/http/operations.h"
#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// The timeouts of a connection.
struct HttpPatience {
  std::chrono::milliseconds request = std::chrono::seconds(10);  ///< to receive one request
  std::chrono::milliseconds idle = std::chrono::seconds(60);     ///< between two requests
  std::chrono::milliseconds write = std::chrono::seconds(30);    ///< to send one reply
};

/// Returns the WireProtocol that recognises and serves HTTP. `context` and `operations` must
/// outlive all connections.
WireProtocol http_protocol(const SessionContext& context, Operations& operations,
                           const HttpPatience& patience = {});

/// Returns the same with the routes for metrics and health only, which ask nobody who he is.
WireProtocol metrics_protocol(const SessionContext& context, Operations& operations,
                              const HttpPatience& patience = {});

}  // namespace c10dd::daemon
