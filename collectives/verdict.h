// SPDX-License-Identifier: Apache-2.0
// The daemon's reason for the end of a generation whose process group has failed. A rank sees a
// broken connection at once. The daemon knows which member was lost, and why, only after the
// member's grace period.
#pragma once

#include <chrono>
#include <optional>

#include "client/membership.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// How long a process group waits for the reason before it fails without it. Longer than the
/// default grace (0.25 s) and the granularity of the daemon's timer; short compared with the cost
/// of a failed step.
inline constexpr Duration kReasonPatience = std::chrono::milliseconds(400);

/// Returns the status with which the generation ended, or nothing if it has not ended within
/// `patience`. Blocks until then.
std::optional<GroupState> await_end(Membership& membership, std::uint64_t generation,
                                    Duration patience);

/// Returns a failure with code aborted, the reason of the status, and the lost ranks.
Failure failure_of(const GroupState& state);

}  // namespace c10dd::collectives
