// SPDX-License-Identifier: Apache-2.0
#include "tests/history/watches.h"

#include <algorithm>

namespace c10dd::history {
namespace {

bool same(const Change& a, const Change& b) {
  return a.revision == b.revision && a.removed == b.removed && a.key == b.key && a.value == b.value;
}

std::string text_of(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) {
    text += " " + std::to_string(change.revision) + (change.removed ? "-" : "+") + change.key.str();
  }
  return text.empty() ? " nothing" : text;
}

}  // namespace

Happened happened_by_answers(const Ops& ops) {
  Happened happened;
  for (const Op* op : ops) {
    const auto* set = std::get_if<Set>(&op->request);
    if (set == nullptr) continue;
    if (op->good()) {
      happened.changes.push_back({op->told<Written>().revision, false, set->key, set->value});
    } else if (op->open_ended()) {
      happened.unsure.emplace(set->key, set->value);
    }
  }
  std::ranges::sort(happened.changes, {}, &Change::revision);
  return happened;
}

FoundFaults judge_watch(const Op& op, const Happened& happened, Now now) {
  const auto& watch = std::get<Watch>(op.request);
  const auto& reply = op.told<Changes>();
  const auto bad = [&](const std::string& why, const std::vector<Change>& expected) -> FoundFaults {
    return {{Fault::watch, "client " + std::to_string(op.client) + " watching " +
                               (watch.prefix ? "prefix " : "key ") + watch.key + " from " +
                               std::to_string(watch.from) + " to " + std::to_string(reply.next) +
                               " " + why + ": told" + text_of(reply.changes) + ", happened" +
                               text_of(expected)}};
  };
  std::vector<Change> expected;
  for (auto it = std::ranges::lower_bound(happened.changes, watch.from, {}, &Change::revision);
       it != happened.changes.end() && it->revision < reply.next; ++it) {
    if (watch.prefix ? it->key.view().starts_with(watch.key) : it->key == watch.key) {
      expected.push_back(*it);
    }
  }
  if (reply.next < watch.from || (reply.next > 0 && reply.next - 1 > now.most)) {
    return bad("ends in what is not durable", expected);
  }
  std::vector<Change> told;
  Revision last = watch.from;
  for (const Change& change : reply.changes) {
    if (change.revision < last || change.revision >= reply.next) {
      return bad("is out of order", expected);
    }
    last = change.revision;
    const bool is_sure = std::ranges::any_of(
        expected, [&](const Change& one) { return one.revision == change.revision; });
    const bool may_be =
        !change.removed && happened.unsure.contains({change.key.str(), change.value.str()});
    if (is_sure || !may_be) told.push_back(change);
  }
  if (watch.from == 0) {
    // The watch begins "now", which is an unknown moment during the call.
    const std::vector<Change> all = expected;
    const std::size_t count = std::min(told.size(), all.size());
    expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(count));
    if (!expected.empty() && expected.front().revision <= now.least) {
      return bad("tells what was before", all);
    }
  }
  if (!std::ranges::equal(told, expected, same)) return bad("is wrong", expected);
  return {};
}

}  // namespace c10dd::history
