// SPDX-License-Identifier: Apache-2.0
// Makes the replies to sessions that join, watch or read a group. Pure functions of the state.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

/// If the member has a rank in a round newer than `after_round`, returns the reply to its join;
/// otherwise returns nothing.
std::optional<Joined> place_of(const GroupState& group, const SessionId& id,
                               std::uint64_t after_round);
/// Returns a page of the member list, from the rank `request.first` on. Fails with stale_generation
/// unless `request.generation` is 0 or the newest generation. Fails with invalid_argument unless
/// `request.first` is below the size of the group.
Result<MemberPage> page_of(const GroupState& group, const ReadMembers& request);
/// Returns the status of the group, without the time left until the deadlines of its notices.
GroupStatus status_of(const GroupState& group);
/// Describes the member with this rank, even if the member has ended.
MissingRank describe_rank(const GroupState& group, Rank rank);

/// Returns the stale_generation failure, which names the newest generation.
Failure not_the_newest(const GroupState& group, std::uint64_t generation);
/// Returns the failure that says why the generation has ended. The failure names the first lost or
/// stalled ranks.
Failure why_ended(const GroupState& group);
/// Returns the failure for joins of those who had no place in the work that is finished.
Failure why_not_needed(const GroupState& group);
/// Returns the failure for joins that time out. The failure says "2 of at least 4 members have
/// joined ...", and names the ranks that have not joined.
Failure why_not_formed(const GroupState& group);

}  // namespace c10dd::core
