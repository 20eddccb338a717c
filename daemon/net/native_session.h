// SPDX-License-Identifier: Apache-2.0
// The native protocol: frames of protocol/native_wire.h, one coroutine per connection that reads
// top to bottom: read, decode, submit.
#pragma once

#include <memory>
#include <string_view>

#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// The entry in the list of protocols.
WireProtocol native_protocol(const SessionContext& context);

/// Serves a connection on the loop of the shard whose job its first frame asks for. Its head begins
/// with the magic bytes, here and below.
void receive_native(std::shared_ptr<Stream> stream, const SessionContext& context);

/// Serves a connection on the loop of `shard`, which is the stream's.
void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard);

}  // namespace c10dd::daemon
