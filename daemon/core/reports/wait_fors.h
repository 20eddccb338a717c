// SPDX-License-Identifier: Apache-2.0
// Finds out who waits for whom in a job, and what is known of them: the input of diagnose().
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/pending.h"
#include "daemon/core/reports/collective_activity.h"
#include "daemon/core/reports/known_ranks.h"
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
  const CollectiveActivity& activity;
  bool loaded = false;  ///< the job was loaded from rows, so ranks may have come before
};

struct JobWaits {
  std::vector<WaitFor> wait_fors;
  std::vector<Deviation> deviations;
  std::vector<RankFacts> ranks;
  std::vector<std::uint64_t> unsettled = {};  ///< see CollectiveWaits::unsettled()
};

/// Returns the place of a session with a request that is blocked, after KnownRanks::note_calls().
std::size_t place_of_waiter(const WaitSources& of, KnownRanks& known, const SessionId& session,
                            std::optional<Rank> rank = {});

/// Returns who waits for whom now. The work is bounded: see WaitForList. `overdue`: see
/// CollectiveWaits.
JobWaits wait_fors(const WaitSources& sources, const std::set<std::uint64_t>& overdue = {});
/// Returns the same of one process group only, however short its ranks have waited.
JobWaits wait_fors(const WaitSources& sources, std::uint64_t process_group);

}  // namespace c10dd::core
