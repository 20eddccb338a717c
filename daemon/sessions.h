// SPDX-License-Identifier: Apache-2.0
// One coroutine per connection and protocol, each reading top to bottom: read, decode, submit.
// To add a protocol: serve_x in daemon/x_session.cc, a line here, a line in listener.cc.
#pragma once

#include "daemon/stream.h"

namespace c10dd::daemon {

class Server;

/// Frames of protocol/native_wire.h.
asio::awaitable<void> serve_native(Stream stream, Server& server);

/// /livez, /readyz, /metrics, /v1/version.
asio::awaitable<void> serve_http(Stream stream, Server& server);

}  // namespace c10dd::daemon
