// SPDX-License-Identifier: Apache-2.0
// The oracles: each checks one promise of the service against the records of a whole run. Each has
// unit tests with a history that it must refuse: tests/sim/oracles_test.cc.
#pragma once

#include <optional>

#include "tests/history/found_fault.h"
#include "tests/sim/records.h"
#include "tests/sim/world.h"

namespace c10dd::sim {

using OptionalViolation = std::optional<Violation>;

inline constexpr std::int64_t kFastest = 1'060;  // per mille: how fast a drifting clock may run
/// Returns how soon a time can have passed by the clock that runs fastest.
constexpr Duration shortest(Duration asked) { return asked * 1'000 / kFastest; }

/// The first of what a judge of histories has found, with its evidence.
OptionalViolation violation_of(const char* oracle, const std::string& job,
                               const history::FoundFaults& findings);

/// Calls on one key are linearizable (O1). Checked by search, without revisions. Counts in
/// `undecided` the keys whose search was stopped.
OptionalViolation judge_keys(const Records& records, std::uint64_t* undecided = nullptr);

/// Each acknowledged change is durable once, and each durable change was requested. Their order is
/// consistent with time, and the replies are those of the model (O1 by revision, O2, O3, O13).
OptionalViolation judge_log(const Records& records);

/// Each reply that shows keys was true at one revision between the call and the reply; no state
/// that was shown was lost; no waiter was woken too late (O1, O2).
OptionalViolation judge_reads(const Records& records);

/// Each pushed item is popped, in order, by one session, unless that session ended (O4).
OptionalViolation judge_queues(const Records& records);

/// A watch reports every change since its start once, in order, and not before it is durable (O5).
OptionalViolation judge_watches(const Records& records);

/// No rank leaves a barrier or exchange before all have arrived; all get the same result, for ever
/// (O6).
OptionalViolation judge_barriers(const Records& records);

/// A generation has one durable member list, the same for all members; it forms by the rules (O8).
OptionalViolation judge_generations(const Records& records);

/// A member is declared lost only after its time, a dead member is declared lost, and all who watch
/// the group are notified (O9).
OptionalViolation judge_losses(const Records& records);

/// Keys are removed when their time to live or their session has ended, not before (O7).
OptionalViolation judge_lives(const Records& records);

/// A launch replaces an earlier one only if that is gone; the earlier launch has no more effect,
/// and its failures are not reported to the new one (O14).
OptionalViolation judge_launches(const Records& records);

/// Every error has an explanation (O13).
OptionalViolation judge_errors(const Records& records);

/// All oracles, in this order.
OptionalViolation judge(const Records& records, std::uint64_t* undecided = nullptr);

}  // namespace c10dd::sim
