// SPDX-License-Identifier: Apache-2.0
// Answers the requests about collectives. `report` brings the totals of a session, for the metrics.
// `publish_call` brings the collective call in which a rank has waited for a long time.
// `read_calls` asks for the published calls of all ranks.
#pragma once

#include "daemon/core/reports/call_board.h"
#include "daemon/core/reports/collective_ledger.h"
#include "daemon/core/waiting/step.h"

namespace c10dd::core {

class CollectiveOps {
 public:
  CollectiveOps(CollectiveLedger& ledger, CallBoard& calls) : ledger_(ledger), calls_(calls) {}

  OptionalReply on(Step& step, const Report& report) {
    Result<std::vector<CollectiveTotals>> differences = ledger_.add(step.from.session, report);
    if (!differences) return differences.error();
    if (!differences->empty()) {
      step.out.events.push_back(CollectivesMeasured{std::move(*differences)});
    }
    return reply(Done{});
  }

  OptionalReply on(Step& step, const PublishCall& publish) {
    const Result<void> good = calls_.publish(publish, step.now);
    if (!good) return good.error();
    return reply(Done{});
  }

  OptionalReply on(Step&, const ReadCalls& read) {
    Result<PublishedCalls> calls = calls_.read(read);
    if (!calls) return calls.error();
    return reply(std::move(*calls));
  }

 private:
  CollectiveLedger& ledger_;
  CallBoard& calls_;
};

}  // namespace c10dd::core
