// SPDX-License-Identifier: Apache-2.0
// Serves connections that speak the native protocol of protocol/native_wire.h. A session per
// connection reads and decodes the requests, and submits them to a shard.
#pragma once

#include <memory>
#include <string_view>

#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// Returns the native protocol's entry in the list of protocols. `context` must outlive the entry.
WireProtocol native_protocol(const SessionContext& context);

/// Moves a connection to the loop of the shard that serves the job named in the first frame. Serves
/// the connection there. The stream's head must begin with the magic bytes. Must be called on the
/// stream's loop, which must be the loop of context.first.
void receive_native(std::shared_ptr<Stream> stream, const SessionContext& context);

/// Serves a connection on the loop of `shard`. The stream's head must begin with the magic bytes.
/// Must be called on the stream's loop, which must be the loop of `shard`.
void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard);

}  // namespace c10dd::daemon
