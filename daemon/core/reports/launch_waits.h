// SPDX-License-Identifier: Apache-2.0
// Who waits for whom in a launch of stock PyTorch, as far as its store can tell: which rank's key
// is awaited, who has not come, and who has left. Also all other waits for keys.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/core/reports/wait_for_list.h"
#include "daemon/core/reports/wait_fors.h"

namespace c10dd::core {

/// A rank of a launch that has left counts only after this time, because the ranks of a launch that
/// ends well leave one after the other.
inline constexpr Duration kLeftFor = std::chrono::seconds(2);
/// After this time, the launch counts as stuck: a launch that ends well has ended by then.
inline constexpr Duration kLeftForGood = std::chrono::seconds(15);

void add_launch_waits(const WaitSources& of, WaitForList& list);

/// Returns the number of ranks, if it is known: as LaunchTold has it, or as a session's
/// label or a barrier of TCPStore names it.
std::optional<std::uint64_t> world_size(const LaunchTold& told, const Sessions& sessions);

}  // namespace c10dd::core
