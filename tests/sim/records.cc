// SPDX-License-Identifier: Apache-2.0
// Which steps became durable.
#include "tests/sim/records.h"

#include <algorithm>

namespace c10dd::sim {

Duration SessionFacts::away_at(TimePoint moment) const {
  Duration away = Duration::max();
  for (const auto& [when, here] : presence) {
    if (when <= moment) away = here ? Duration(0) : moment - when;
  }
  return away;
}

Duration SessionFacts::longest_away(TimePoint now) const {
  Duration longest{0};
  for (std::size_t i = 0; i < presence.size(); ++i) {
    const TimePoint until = i + 1 < presence.size() ? presence[i + 1].first : now;
    if (!presence[i].second) longest = std::max(longest, until - presence[i].first);
  }
  return longest;
}

bool Step::is_effect() const {
  return keeps_answer ||
         std::ranges::any_of(rows, [](const Row& row) { return row.key.starts_with('k'); });
}

void Records::taken(const store::JobBatch& batch, std::uint64_t order) {
  std::vector<Step>& log = logs_[batch.job];
  if (!log.empty() && batch.to_rev <= log.back().revision) return;  // repeated
  for (Step& step : doing_[{batch.job, batch.epoch}]) {
    if (step.revision <= batch.from_rev || step.revision > batch.to_rev) continue;
    log.push_back(step);
    log.back().durable = order;
  }
}

std::map<std::string, history::Ops> Records::calls() const {
  std::map<std::string, history::Ops> calls;
  for (const Op& op : ops) calls[op.job].push_back(&op);
  return calls;
}

const std::vector<Step>& Records::log(JobNumber job) const {
  static const std::vector<Step> none;
  const auto it = logs_.find(job);
  return it == logs_.end() ? none : it->second;
}

const std::vector<Step>& Records::log(const std::string& job) const {
  const auto it = jobs.find(job);
  return log(it == jobs.end() ? JobNumber{0} : it->second);
}

bool names(const std::vector<RankRange>& ranges, Rank rank) {
  return std::ranges::any_of(
      ranges, [&](const RankRange& range) { return range.first <= rank && rank <= range.last; });
}

}  // namespace c10dd::sim
