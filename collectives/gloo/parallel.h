// SPDX-License-Identifier: Apache-2.0
// Runs a function for many peers in parallel, because each call waits up to 10 ms for an iteration
// of Gloo's event loop. The calls connect to peers or close connections.
#pragma once

#include <functional>
#include <vector>

namespace c10dd::collectives {

/// Calls `each` for every one of `peers`, on up to 16 threads. Blocks until all calls have
/// returned, then rethrows the first exception.
void for_each_of(const std::vector<int>& peers, const std::function<void(int)>& each);

/// Like for_each_of(), for all ranks below `size` except `rank`.
void for_each_peer(int rank, int size, const std::function<void(int)>& each);

}  // namespace c10dd::collectives
