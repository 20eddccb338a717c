// SPDX-License-Identifier: Apache-2.0
// Aborts process groups at the end of their generation. After a group has failed, gets from the
// daemon the reason why the generation has ended. A rank sees a broken connection at once. The
// daemon knows which member was lost, and why, only after the grace period of that member.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "client/membership.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// How long a process group that has lost a peer waits for the daemon to say why the generation has
/// ended. After that time the group fails without the daemon's reason. The time is longer than the
/// default grace period (0.25 s) plus the period of the daemon's timer, and short compared with the
/// cost of a failed step.
inline constexpr Duration kReasonPatience = std::chrono::milliseconds(400);

/// Blocks until the generation has ended, but at most for `patience`. Returns the state that the
/// rendezvous group had when the generation ended, or nullopt if `patience` ran out first.
std::optional<GroupState> await_end(Membership& membership, std::uint64_t generation,
                                    Duration patience);

/// Aborts all groups of the membership, now and later, as soon as their generation has ended. Ends
/// when the result is destroyed.
std::shared_ptr<void> abort_groups_at_end(Membership& membership);

/// Returns a failure with code `aborted`, the text `state.reason`, and the ranks in `state.lost`.
Failure failure_of(const GroupState& state);

}  // namespace c10dd::collectives
