// SPDX-License-Identifier: Apache-2.0
// The native protocol: frames of protocol/native_wire.h, and one coroutine per connection that
// reads, decodes and submits requests.
#pragma once

#include <memory>
#include <string_view>

#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// Returns the native protocol's entry in the list of protocols. `context` must outlive it.
WireProtocol native_protocol(const SessionContext& context);

/// Moves a connection to the loop of the shard that serves the job of its first frame, and serves
/// it there. The stream's head begins with the magic bytes. Called on the stream's loop, which is
/// the loop of context.first.
void receive_native(std::shared_ptr<Stream> stream, const SessionContext& context);

/// Serves a connection on the loop of `shard`. The stream's head begins with the magic bytes.
/// Called on the stream's loop, which is the loop of `shard`.
void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard);

}  // namespace c10dd::daemon
