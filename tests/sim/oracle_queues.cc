// SPDX-License-Identifier: Apache-2.0
// Items are popped in order, by one client each, and no item is lost. The log shows which pushes
// were applied.
#include <set>

#include "tests/history/queues.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {

OptionalViolation judge_queues(const Records& records) {
  std::set<std::pair<SessionId, std::uint64_t>> durable;
  for (const auto& [job, number] : records.jobs) {
    for (const Step& step : records.log(number)) {
      if (step.is_effect()) durable.emplace(step.session, step.sequence);
    }
  }
  history::QueueFacts facts;
  facts.drained = records.drained;
  facts.keeps_items = [](const Bytes& queue) { return queue.starts_with('w'); };
  facts.done = [&](const Op& op) {
    return op.sequence != 0 && durable.contains({op.session, op.sequence});
  };
  facts.session_ended = [&](const Op& op) {
    if (records.dead_clients.contains(op.client)) return true;
    const auto it = records.sessions.find(op.session);
    return it != records.sessions.end() && (it->second.ended || it->second.said_goodbye);
  };
  for (const auto& [job, ops] : records.calls()) {
    if (auto bad = violation_of("queues", job, history::judge_queues(ops, facts))) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
