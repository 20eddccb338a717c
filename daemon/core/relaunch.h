// SPDX-License-Identifier: Apache-2.0
// Decides what happens when a new session asks for a rank that an earlier session (the holder) has
// at a barrier or exchange without a group. If the holder is present, the request is refused. If
// the holder is away, the request waits until the holder is back or gone. If the holder is gone but
// a session that was released together with the holder is present, the request fails, because the
// rank was restarted alone. When all these sessions are gone, Relaunch ends them, and the new
// launch takes their ranks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/barriers.h"
#include "daemon/core/session_ops.h"

namespace c10dd::core {

class Relaunch {
 public:
  /// Has the session for which the arrival must wait, or nullopt if the arrival may go on.
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
