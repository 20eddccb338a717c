// SPDX-License-Identifier: Apache-2.0
// Writes why a plan gives the ranks as it does: which were kept, moved and added. For people.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/group/seating.h"

namespace c10dd::core {

/// The reason of a plan whose ranks are final. `holes`: by rank. See RankPlan::reason.
std::string reason_of(const Candidates& candidates, const RankPlan& plan,
                      const std::vector<const Hole*>& holes, std::size_t size_before,
                      std::uint32_t max);

}  // namespace c10dd::core
