// SPDX-License-Identifier: Apache-2.0
// Answers the requests about collectives. `report` brings the totals of a session, for the metrics.
// `activity` brings how far its process groups have come, and is answered with what the daemon has
// found out about them.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "daemon/core/reports/collective_activity.h"
#include "daemon/core/reports/collective_ledger.h"
#include "daemon/core/reports/diagnoses.h"
#include "daemon/core/waiting/step.h"

namespace c10dd::core {

class CollectiveOps {
 public:
  /// `sources` returns the tables of the job.
  CollectiveOps(CollectiveLedger& ledger, CollectiveActivity& activity, Diagnoses& diagnoses,
                std::function<WaitSources(TimePoint)> sources)
      : ledger_(ledger), activity_(activity), diagnoses_(diagnoses), sources_(std::move(sources)) {}

  OptionalReply on(Step& step, const Report& report) {
    Result<std::vector<CollectiveTotals>> differences =
        ledger_.add(step.from.session, report, step.account(), step.allowance);
    if (!differences) return differences.error();
    if (!differences->empty()) {
      step.out.events.push_back(CollectivesMeasured{std::move(*differences)});
    }
    return reply(Done{});
  }

  OptionalReply on(Step& step, const Activity& activity);

 private:
  /// Diagnoses of one group, which all its ranks ask for at about the same time, are kept so long.
  static constexpr Duration kKept = std::chrono::milliseconds(100);

  ActivityDiagnosis concerning(const SessionId& session, const Activity& activity,
                               TimePoint now) const;
  ActivityDiagnosis hopeless(const Reporter& reporter) const;
  ActivityDiagnosis of_group(std::uint64_t process_group, TimePoint now);

  CollectiveLedger& ledger_;
  CollectiveActivity& activity_;
  Diagnoses& diagnoses_;
  const std::function<WaitSources(TimePoint)> sources_;
  std::map<std::uint64_t, std::pair<TimePoint, ActivityDiagnosis>> of_groups_;  // see kKept
};

}  // namespace c10dd::core
