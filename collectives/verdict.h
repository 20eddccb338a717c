// SPDX-License-Identifier: Apache-2.0
// What the daemon says of a generation whose process group has failed. A broken connection is seen
// at once; who was lost, and why, is known when the daemon has waited out the member's grace.
#pragma once

#include <chrono>
#include <optional>

#include "client/membership.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// How long a process group waits for the reason before it ends without: longer than the default
/// grace (0.25 s) and its grid, short beside a step that has failed.
inline constexpr Duration kVerdictPatience = std::chrono::milliseconds(400);

/// How the generation ended; nothing if it has not within this time.
std::optional<GroupState> await_end(Membership& membership, std::uint64_t generation,
                                    Duration patience);

/// `aborted`, with the reason of the state and the lost ranks.
Failure verdict_of(const GroupState& state);

}  // namespace c10dd::collectives
