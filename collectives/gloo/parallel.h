// SPDX-License-Identifier: Apache-2.0
// Steps that wait for a turn of Gloo's event loop, up to 10 ms each, taken for many peers at once.
#pragma once

#include <functional>
#include <vector>

namespace c10dd::collectives {

/// Calls `each` for every one of `peers`, on several threads if there are several. Rethrows the
/// first exception after all have ended.
void for_each_of(const std::vector<int>& peers, const std::function<void(int)>& each);

/// The same for all ranks below `size` but `rank`.
void for_each_peer(int rank, int size, const std::function<void(int)>& each);

}  // namespace c10dd::collectives
