// SPDX-License-Identifier: Apache-2.0
// The judge of a queue: each item is popped, by one, in the order in which the items were pushed.
#pragma once

#include <functional>
#include <map>

#include "tests/history/finding.h"

namespace c10dd::history {

/// What is known of a run beside its calls.
struct QueueFacts {
  /// Whether what a call asked for was done; nothing if nobody knows. Without this function the
  /// answer of the call decides.
  std::function<std::optional<bool>(const Op&)> done = {};
  /// The session of this call has ended, so that what it had popped may have come back.
  std::function<bool(const Op&)> session_ended;
  /// In the end the queues were emptied.
  bool drained = false;
  /// A process may be killed between an answer and the line that says so: a pop without an answer
  /// may have taken an item for good.
  bool answers_may_be_missing = false;
};

/// No value is pushed twice into one queue.
Findings judge_queues(const Ops& ops, const QueueFacts& facts);

}  // namespace c10dd::history
