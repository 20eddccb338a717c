// SPDX-License-Identifier: Apache-2.0
// Copies bytes between the connection of a client and one to another daemon, in both directions,
// until both have ended. Each direction holds at most kSplicedBytes, and then does not read before
// the other side has taken them; an idle one holds no buffer. The end of one direction is passed
// on; an error ends both connections.
#pragma once

#include <functional>
#include <memory>

#include "daemon/net/stream.h"

namespace c10dd::daemon {

inline constexpr std::size_t kSplicedBytes = 128 * 1024;

/// Starts to copy, and returns at once. Both streams must be on the caller's loop. `received` was
/// read from the client before. Calls `then` when both connections are closed.
void splice(std::shared_ptr<Stream> client, const Bytes& received, std::shared_ptr<Stream> owner,
            std::function<void()> then);

}  // namespace c10dd::daemon
