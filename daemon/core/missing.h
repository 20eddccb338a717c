// SPDX-License-Identifier: Apache-2.0
// Says whom a barrier or exchange was waiting for, with what is known of each.
#pragma once

#include "daemon/core/barriers.h"
#include "daemon/core/group/groups.h"
#include "daemon/core/sessions.h"
#include "protocol/error.h"

namespace c10dd::core {

/// What is known of everybody in a job.
struct Everybody {
  const Sessions& sessions;
  const Barriers& barriers;
  const Groups& groups;
  TimePoint now;
};

/// What is known of a rank that has not come: of its place in the barrier's world if it is bound to
/// one, else of the session that calls itself so.
MissingRank look_up(Rank rank, const BarrierKey& key, const BarrierState& barrier,
                    const Everybody& everybody);

/// timed_out of a barrier or exchange, naming every missing rank with what is known of it.
Failure missing_ranks(const BarrierKey& key, const BarrierState& barrier, Duration timeout,
                      const Everybody& everybody);

/// timed_out of a request that waited for a session which holds its rank: it may come back.
Failure missing_session(const BarrierKey& key, const SessionId& absent, Duration timeout,
                        const Everybody& everybody);

/// "host-b (pid 12)"; nothing is known of a process if `session` is null.
std::string process_of(const Session* session);

/// "rank 3 on host host-b (pid 12) is silent, last heard 2.1 s ago".
std::string sentence(const MissingRank& missing);

}  // namespace c10dd::core
