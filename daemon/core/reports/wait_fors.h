// SPDX-License-Identifier: Apache-2.0
// Finds out who waits for whom in a job, and what is known of them: the input of diagnose().
#pragma once

#include <vector>

#include "daemon/core/pending.h"
#include "daemon/core/torch/launch_ranks.h"
#include "daemon/core/waiting/missing.h"
#include "protocol/wait_for.h"

namespace c10dd::core {

/// The tables of a job from which wait-fors follow.
struct WaitSources {
  const Pending& pending;
  const KeySpace& keys;
  const LaunchRanks& launch;
  Everybody everybody;
};

struct JobWaits {
  std::vector<WaitFor> wait_fors;
  std::vector<RankFacts> ranks;
};

/// Returns who waits for whom now. A rank of a launch that has left counts only after kLeftFor,
/// because the ranks of a launch that ends well leave one after the other.
JobWaits wait_fors(const WaitSources& sources);

inline constexpr Duration kLeftFor = std::chrono::seconds(2);

/// Returns the number of ranks, if it is known: as LaunchRanks::Told has it, or as a session's
/// label or a barrier of TCPStore names it.
std::optional<std::uint64_t> world_size(const LaunchRanks::Told& told, const Sessions& sessions);

}  // namespace c10dd::core
