// SPDX-License-Identifier: Apache-2.0
// The judge of a watch: it tells every change from where it began, once, in order.
#pragma once

#include <set>
#include <utility>

#include "tests/history/finding.h"

namespace c10dd::history {

/// What a watch is to tell.
struct Happened {
  std::vector<Change> changes;               ///< in order
  std::set<std::pair<Bytes, Bytes>> unsure;  ///< sets of a key that may have happened beside them
};

/// As the answers of set calls say it.
Happened happened_by_answers(const Ops& ops);

/// Which revisions "now" may have been while a call was under way.
struct Now {
  Revision least = 0;
  Revision most = ~Revision{0};
};

/// A good answer to a watch.
Findings judge_watch(const Op& op, const Happened& happened, Now now = {});

}  // namespace c10dd::history
