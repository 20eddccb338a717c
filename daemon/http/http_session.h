// SPDX-License-Identifier: Apache-2.0
// HTTP on one connection: the routes of routes.h, answered with what Operations say.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>

#include "daemon/http/operations.h"
#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// How long a client is waited for.
struct HttpPatience {
  std::chrono::milliseconds request = std::chrono::seconds(10);  ///< from first byte to last
  std::chrono::milliseconds idle = std::chrono::seconds(60);     ///< between two requests
  std::chrono::milliseconds write = std::chrono::seconds(30);    ///< of one answer
};

/// The entry in the list of protocols.
WireProtocol http_protocol(const SessionContext& context, Operations& operations,
                           const HttpPatience& patience = {});

}  // namespace c10dd::daemon
