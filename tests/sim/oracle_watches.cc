// SPDX-License-Identifier: Apache-2.0
// Watches tell every change once, in order, without a gap.
#include <algorithm>

#include "tests/sim/key_log.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

bool same(const Change& a, const Change& b) {
  return a.revision == b.revision && a.removed == b.removed && a.key == b.key && a.value == b.value;
}

std::string text_of(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) {
    text += " " + std::to_string(change.revision) + (change.removed ? "-" : "+") + change.key;
  }
  return text.empty() ? " nothing" : text;
}

Judgement judge_answer(const std::string& job, const Op& op, const KeyLog& log,
                       const Windows& windows) {
  const auto& watch = std::get<Watch>(op.request);
  const auto& answer = std::get<Changes>(**op.answer);
  const auto bad = [&](const std::string& why, const std::vector<Change>& expected) {
    return Violation{"watches", job + ": client " + std::to_string(op.client) + " watching " +
                                    (watch.prefix ? "prefix " : "key ") + watch.key + " from " +
                                    std::to_string(watch.from) + " to " +
                                    std::to_string(answer.next) + " " + why + ": told" +
                                    text_of(answer.changes) + ", happened" + text_of(expected)};
  };
  std::vector<Change> happened;
  for (const Change& change : log.changes()) {
    const bool concerned =
        watch.prefix ? change.key.starts_with(watch.key) : change.key == watch.key;
    if (concerned && change.revision >= watch.from && change.revision < answer.next) {
      happened.push_back(change);
    }
  }
  if (answer.next > windows.most(op) + 1 || answer.next < watch.from) {
    return bad("ends in what is not durable", happened);
  }
  std::vector<Change> expected = happened;
  if (watch.from == 0) {
    // From now on: "now" is some moment of the call.
    const std::size_t told = std::min(answer.changes.size(), happened.size());
    expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(told));
    if (!expected.empty() && expected.front().revision <= windows.least(op)) {
      return bad("tells what was before", happened);
    }
  }
  if (!std::ranges::equal(answer.changes, expected, same)) return bad("is wrong", expected);
  return std::nullopt;
}

}  // namespace

Judgement judge_watches(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    const KeyLog log(records.log(number));
    const Windows windows(records, job);
    for (const Op& op : records.ops) {
      if (op.job != job || !std::holds_alternative<Watch>(op.request)) continue;
      if (op.good()) {
        if (auto bad = judge_answer(job, op, log, windows)) return bad;
      } else if (op.code() == Code::compacted && !records.small_history &&
                 records.loads.at(job) == 1) {
        return Violation{"watches", describe(op) + ": nothing was forgotten"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
