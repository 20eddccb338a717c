// SPDX-License-Identifier: Apache-2.0
// Describes a plan of ranks in words: which ranks were kept, which moved, and which were added.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/group/seating.h"

namespace c10dd::core {

/// Returns the text for RankPlan::reason. The ranks of the plan must be final. `holes[rank]` points
/// to the hole at this rank, or is null if there is none.
std::string reason_of(const Candidates& candidates, const RankPlan& plan,
                      const std::vector<const Hole*>& holes, std::size_t size_before,
                      std::uint32_t max);

}  // namespace c10dd::core
