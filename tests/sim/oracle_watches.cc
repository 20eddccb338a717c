// SPDX-License-Identifier: Apache-2.0
// Watches report every change of the log, and are refused only when some changes were forgotten.
#include "tests/history/watches.h"
#include "tests/sim/key_log.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {

OptionalViolation judge_watches(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    const history::Happened happened{KeyLog(records.log(number)).changes(), {}};
    const Windows windows(records, job);
    for (const Op& op : records.ops) {
      if (op.job != job || !std::holds_alternative<Watch>(op.request)) continue;
      if (op.good()) {
        const history::Now now{windows.least(op), windows.most(op)};
        const auto findings = history::judge_watch(op, happened, now);
        if (auto bad = violation_of("watches", job, findings)) return bad;
      } else if (op.code() == Code::compacted && !records.small_history &&
                 records.loads.at(job) == 1) {
        return Violation{"watches", describe(op) + ": nothing was forgotten"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
