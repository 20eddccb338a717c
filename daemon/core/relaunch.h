// SPDX-License-Identifier: Apache-2.0
// Decides what happens when a new session asks for a rank that an earlier session (the holder) has
// at a barrier or exchange without a group. If the holder is present, the request is refused. If
// the holder is away, the request waits until it is back or gone. If the holder is gone, the
// sessions that were released together with it decide: while one of them is present, the rank was
// restarted alone, and the request fails. When all of them are gone, Relaunch ends them, and the
// new launch takes their ranks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/barriers.h"
#include "daemon/core/session_ops.h"

namespace c10dd::core {

class Relaunch {
 public:
  /// The session that the arrival must wait for; nullopt if the arrival may go on to the barrier.
  using Way = Result<std::optional<SessionId>>;

  Relaunch(Barriers& barriers, const Sessions& sessions, SessionOps& session_ops)
      : barriers_(barriers), sessions_(sessions), session_ops_(session_ops) {}

  /// Frees the rank for an arrival if an earlier launch still holds it. Fails if the arrival is
  /// refused.
  Way make_way(Step& step, const BarrierKey& key, Rank rank, const Arrival& arrival);

 private:
  Way leave_behind(Step& step, const BarrierKey& key, Rank rank, Result<void> good);
  Way take_rank(Step& step, const BarrierKey& key, Rank rank, SessionId holder);
  Turnout turnout(const std::vector<std::pair<Rank, SessionId>>& all, TimePoint now) const;
  const Turnout& turnout(const CohortRef& cohort, TimePoint now) const;
  Failure restarted_alone(Step& step, const BarrierKey& key, Rank rank, const SessionId& holder,
                          const std::vector<CohortRef>& cohorts);
  void replace(Step& step, const BarrierKey& key, Rank rank, const SessionId& holder,
               std::vector<CohortRef> cohorts);

  Barriers& barriers_;
  const Sessions& sessions_;
  SessionOps& session_ops_;
};

}  // namespace c10dd::core
