// SPDX-License-Identifier: Apache-2.0
// How messages of the collectives name ranks: `rank 3`, `ranks [17,512-519]`.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/wording.h"

namespace c10dd::collectives {

inline std::string folded(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return fold(ranks);
}

/// "rank 3" or "ranks [3,5-7]".
inline std::string named(const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? "rank " + std::to_string(ranks.front()) : "ranks " + folded(ranks);
}

}  // namespace c10dd::collectives
