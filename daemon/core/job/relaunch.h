// SPDX-License-Identifier: Apache-2.0
// Decides about an arrival at a barrier or exchange without a group, if an earlier session (the
// holder) has already taken the rank of the arrival:
//  - The holder is present: the request is refused.
//  - The holder is away: the request waits until the holder is back or counts as gone.
//  - The holder counts as gone; another session that was released with it is present: the request
//    fails, because the rank was restarted alone. If the other session is away: the request waits.
//    If the request awaits the earlier launch (Exchange::awaits_earlier), it waits in both cases.
//  - The holder and all sessions that were released with it count as gone: Relaunch ends these
//    sessions, and the new launch takes their ranks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/job/session_ops.h"

namespace c10dd::core {

class Relaunch {
 public:
  /// The session for which the arrival must wait; nullopt if the arrival may go on.
  using Way = Result<std::optional<SessionId>>;

  Relaunch(Barriers& barriers, const Sessions& sessions, SessionOps& session_ops)
      : barriers_(barriers), sessions_(sessions), session_ops_(session_ops) {}

  /// One arrival. `awaits_earlier`: see Exchange.
  struct Newcomer {
    const BarrierKey& key;
    Rank rank = 0;
    bool awaits_earlier = false;
  };

  /// If an earlier launch still holds the rank of an arrival, frees the rank. Fails if the arrival
  /// is refused.
  Way make_way(Step& step, const Newcomer& newcomer, const Arrival& arrival);

 private:
  Way leave_behind(Step& step, const Newcomer& newcomer, const Result<void>& good);
  Way take_rank(Step& step, const Newcomer& newcomer, SessionId holder);
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
