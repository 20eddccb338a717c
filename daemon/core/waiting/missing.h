// SPDX-License-Identifier: Apache-2.0
// Describes the ranks that a barrier or exchange is still waiting for. Replies and error texts use
// these descriptions.
#pragma once

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/group/groups.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/error.h"
#include "protocol/limits.h"

namespace c10dd::core {

/// A connected session that has been silent for longer than this is named as silent.
inline constexpr Duration kSilent = 3 * Duration(limits::kHeartbeatInterval);

/// The tables of a job that are needed to describe missing ranks.
struct Everybody {
  const Sessions& sessions;
  const Barriers& barriers;
  const Groups& groups;
  TimePoint now;
};

/// Describes a rank that has not arrived, or has arrived and lost its connection. If the barrier is
/// bound to a group, uses the group's session for this rank. Otherwise uses the session that
/// arrived as this rank or, if there is none, the session whose hello named this rank.
MissingRank look_up(Rank rank, const BarrierKey& key, const BarrierState& barrier,
                    const Everybody& everybody);

/// The ranks for which a barrier or exchange still waits.
struct AbsentRanks {
  std::vector<Rank> ranks;             ///< ascending
  std::vector<MissingRank> described;  ///< the first limits::kMissingNamed of them
  std::string text;  ///< "1 of 2 ranks missing: [1]; rank 1 never connected", for some of them
};
AbsentRanks absent_ranks(const BarrierKey& key, const BarrierState& barrier,
                         const Everybody& everybody);

/// Returns the timed_out failure of a barrier or exchange, which has the missing ranks.
Failure missing_ranks(const BarrierKey& key, const BarrierState& barrier, Duration timeout,
                      const Everybody& everybody);

/// Returns the timed_out failure of a request that was waiting for the session `absent` to come
/// back or to count as gone or, if it is connected, to leave: then with the present ranks of its
/// launch.
Failure missing_session(const BarrierKey& key, const SessionId& absent, Duration timeout,
                        const Everybody& everybody);

}  // namespace c10dd::core
