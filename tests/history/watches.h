// SPDX-License-Identifier: Apache-2.0
// The judge of a watch: the watch must report every change since its start, once, in order.
#pragma once

#include <set>
#include <utility>

#include "tests/history/found_fault.h"

namespace c10dd::history {

/// The changes that a watch must or may report.
struct Happened {
  std::vector<Change> changes;               ///< in order
  std::set<std::pair<Bytes, Bytes>> unsure;  ///< sets (key, value) that may also have happened
};

/// Returns the changes that follow from the replies to set calls.
Happened happened_by_answers(const Ops& ops);

/// The range of revisions that "now" may have meant during a call.
struct Now {
  Revision least = 0;
  Revision most = ~Revision{0};
};

/// Judges a watch that has a good reply.
FoundFaults judge_watch(const Op& op, const Happened& happened, Now now = {});

}  // namespace c10dd::history
