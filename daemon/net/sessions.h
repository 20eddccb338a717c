// SPDX-License-Identifier: Apache-2.0
// One coroutine per connection and protocol, each reading top to bottom: read, decode, submit. It
// is spawned, not awaited, so that nothing of how the protocol was recognised stays in memory with
// it. To add a protocol: serve_x in daemon/net/x_session.cc, a line here, a line in listener.cc.
#pragma once

#include "daemon/net/stream.h"
#include "protocol/ops.h"

namespace c10dd::daemon {

class Server;
class Shard;

/// Why a hello is refused before any job is asked.
Result<void> check_hello(const Hello& hello, const Server& server);

/// Whether more must be read of a native connection to know which job it is for. `head` begins with
/// the magic bytes, here and in the stream below.
bool first_frame_is_missing(std::string_view head);

/// Serves a connection on the loop of the shard whose job its first frame asks for.
void receive_native(Stream stream, Server& server);

/// Frames of protocol/native_wire.h, on the loop of `shard`, which is the stream's.
void serve_native(Stream stream, Server& server, Shard& shard);

/// The routes of daemon/http/routes.cc.
asio::awaitable<void> serve_http(Stream stream, Server& server);

}  // namespace c10dd::daemon
