// SPDX-License-Identifier: Apache-2.0
// Which steps became durable, and how calls look to people.
#include "tests/sim/records.h"

#include <algorithm>

#include "protocol/json_wire.h"
#include "protocol/utf8.h"

namespace c10dd::sim {
namespace {

constexpr std::size_t kShown = 200;

}  // namespace

bool Op::open_ended() const {
  if (!answer) return true;
  switch (code()) {
    case Code::timed_out:
    case Code::outcome_unknown:
    case Code::session_expired:
    case Code::session_replaced:
    case Code::closed:
    case Code::unavailable:
    case Code::not_owner:
    case Code::session_superseded:
    case Code::aborted:
      return true;
    default:
      return false;
  }
}

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

const std::vector<Step>& Records::log(JobNumber job) const {
  static const std::vector<Step> none;
  const auto it = logs_.find(job);
  return it == logs_.end() ? none : it->second;
}

const std::vector<Step>& Records::log(const std::string& job) const {
  const auto it = jobs.find(job);
  return log(it == jobs.end() ? JobNumber{0} : it->second);
}

std::string describe(const Answer& answer) {
  return printable(json::encode_answer(answer), kShown);
}

std::string describe(const Op& op) {
  std::string text = "client " + std::to_string(op.client) + " #" + std::to_string(op.sequence) +
                     " " + std::string(info_of(op.request).name) + " " +
                     printable(json::encode_request(op.request), kShown) + " [" +
                     std::to_string(op.invoked) + ", " +
                     (op.answered == 0 ? "never" : std::to_string(op.answered)) + "]";
  return op.answer ? text + " -> " + describe(*op.answer) : text;
}

}  // namespace c10dd::sim
