// SPDX-License-Identifier: Apache-2.0
// What a session is told that joins, follows or reads a group. Pure functions of the state.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

/// The place that a join after this round has got, if it has one.
std::optional<Joined> place_of(const GroupState& group, const SessionId& id,
                               std::uint64_t after_round);
/// Fails with stale_generation, or invalid_argument if the group has no such rank.
Result<MemberPage> page_of(const GroupState& group, const ReadMembers& request);
/// The status of the group, without the time that is left of its notices.
GroupStatus status_of(const GroupState& group);
/// What is known of the member that has this rank.
MissingRank describe_rank(const GroupState& group, Rank rank);

/// stale_generation, naming the newest.
Failure not_the_newest(const GroupState& group, std::uint64_t generation);
/// Why the generation is over, naming the lost ranks.
Failure why_ended(const GroupState& group);
/// "2 of at least 4 members have joined ...", and which have not; for joins that time out.
Failure why_not_formed(const GroupState& group);

}  // namespace c10dd::core
