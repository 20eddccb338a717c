// SPDX-License-Identifier: Apache-2.0
// Makes the replies to sessions that join, watch or read a group. Pure functions of the state.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

/// Returns the place of a member whose join asked for a round after `after_round`, if it has one.
std::optional<Joined> place_of(const GroupState& group, const SessionId& id,
                               std::uint64_t after_round);
/// Returns a page of the member list. Fails with stale_generation, or with invalid_argument if the
/// group has no such rank.
Result<MemberPage> page_of(const GroupState& group, const ReadMembers& request);
/// Returns the status of the group, without the time left of its notices.
GroupStatus status_of(const GroupState& group);
/// Describes the member that has this rank, or had it when it ended.
MissingRank describe_rank(const GroupState& group, Rank rank);

/// Returns the stale_generation failure, which names the newest generation.
Failure not_the_newest(const GroupState& group, std::uint64_t generation);
/// Returns the failure that says why the generation has ended and names the lost ranks.
Failure why_ended(const GroupState& group);
/// Returns the failure for joins that time out: "2 of at least 4 members have joined ...", and
/// which have not.
Failure why_not_formed(const GroupState& group);

}  // namespace c10dd::core
