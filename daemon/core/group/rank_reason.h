// SPDX-License-Identifier: Apache-2.0
// Writes a text for people that explains a plan of ranks: which ranks were kept, moved and added.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/group/seating.h"

namespace c10dd::core {

/// Returns the text for RankPlan::reason. The ranks of the plan must be final. holes[rank] is the
/// Hole with this rank, or null if there is none.
std::string reason_of(const Candidates& candidates, const RankPlan& plan,
                      const std::vector<const Hole*>& holes, std::size_t size_before,
                      std::uint32_t max);

}  // namespace c10dd::core
