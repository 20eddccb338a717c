// SPDX-License-Identifier: Apache-2.0
// The promises of the service, each as a judge of the records of a whole run. Each has unit tests
// with a history that it must refuse: tests/sim/oracles_test.cc.
#pragma once

#include <optional>

#include "tests/history/finding.h"
#include "tests/sim/records.h"
#include "tests/sim/world.h"

namespace c10dd::sim {

using Judgement = std::optional<Violation>;

/// The first of what a judge of histories has found, with its evidence.
Judgement violation_of(const char* oracle, const std::string& job,
                       const history::Findings& findings);

/// Calls on one key could have been made one at a time (O1), by search, without looking at
/// revisions.
/// Counts in `undecided` the keys whose search was given up.
Judgement judge_keys(const Records& records, std::uint64_t* undecided = nullptr);

/// What was acknowledged is durable, once, and what is durable was asked for; in an order that
/// time allows, with the answers that the model gives (O1 by revision, O2, O3, O13).
Judgement judge_log(const Records& records);

/// Each answer that shows keys was true at one revision between its call and its answer; nothing
/// shown vanished again; nobody was woken too late (O1, O2).
Judgement judge_reads(const Records& records);

/// Each item pushed is popped: by one, unless its session ended; in order (O4).
Judgement judge_queues(const Records& records);

/// A watch tells every change from where it began, once, in order, none before it is durable (O5).
Judgement judge_watches(const Records& records);

/// Nobody leaves a barrier or exchange before all arrived; all get the same, for ever (O6).
Judgement judge_barriers(const Records& records);

/// One number has one member list, durable, for everybody; it forms by the rules (O8).
Judgement judge_generations(const Records& records);

/// Who is given up had its time, who is dead is given up, and all who follow know it (O9).
Judgement judge_losses(const Records& records);

/// Keys end when their time or their session is over, not before (O7).
Judgement judge_lives(const Records& records);

/// A launch takes the place of one that is gone, which does nothing more and is not heard of (O14).
Judgement judge_launches(const Records& records);

/// No error that nothing explains (O13).
Judgement judge_errors(const Records& records);

/// All of them, in this order.
Judgement judge(const Records& records, std::uint64_t* undecided = nullptr);

}  // namespace c10dd::sim
