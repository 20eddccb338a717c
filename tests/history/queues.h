// SPDX-License-Identifier: Apache-2.0
// The judge of a queue. Each item is popped once, and items are popped in the order of their
// pushes.
#pragma once

#include <functional>
#include <map>

#include "tests/history/found_fault.h"

namespace c10dd::history {

/// What the judge knows about a run in addition to the calls.
struct QueueFacts {
  /// Returns whether the call was applied, or nothing if that is unknown. If there is no such
  /// function, the reply of the call decides.
  std::function<std::optional<bool>(const Op&)> done = {};
  /// Returns true if the session of this call has ended: then items that it popped may have come
  /// back.
  std::function<bool(const Op&)> session_ended;
  /// Returns true if sessions with Hello::c10d use this queue: items that are kept for some of them
  /// may be popped after later ones. If there is no such function, no queue is such a one.
  std::function<bool(const Bytes& queue)> keeps_items = {};
  /// True if all queues were emptied at the end of the run.
  bool drained = false;
  /// True if a process may have been killed after it got a reply and before it recorded the reply:
  /// then a pop without a reply may have removed an item for good.
  bool answers_may_be_missing = false;
};

/// The calls must not push a value twice into one queue.
FoundFaults judge_queues(const Ops& ops, const QueueFacts& facts);

}  // namespace c10dd::history
