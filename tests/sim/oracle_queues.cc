// SPDX-License-Identifier: Apache-2.0
// Items leave in order, to one popper, and none is lost.
#include <algorithm>
#include <set>

#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

/// Values are pushed once in a run.
struct Item {
  const Op* push = nullptr;
  bool durable = false;
  std::vector<const Op*> pops;
};

using Queue = std::map<Bytes, Item>;

std::map<std::pair<std::string, Bytes>, Queue> collect(const Records& records) {
  std::map<std::pair<std::string, Bytes>, Queue> queues;
  std::set<std::pair<SessionId, std::uint64_t>> durable;
  for (const auto& [job, number] : records.jobs) {
    for (const Step& step : records.log(number)) {
      if (step.is_effect()) durable.emplace(step.session, step.sequence);
    }
  }
  for (const Op& op : records.ops) {
    const bool kept = op.sequence != 0 && durable.contains({op.session, op.sequence});
    const auto pushed = [&](const Bytes& key, const Bytes& value) {
      Item& item = queues[{op.job, key}][value];
      item.push = &op;
      item.durable = kept;
    };
    if (const auto* push = std::get_if<QueuePush>(&op.request)) pushed(push->key, push->value);
    if (const auto* transact = std::get_if<Transact>(&op.request)) {
      for (const Action& action : transact->actions) {
        if (action.kind == Action::Kind::push) pushed(action.key, action.value);
      }
    }
    const auto* pop = std::get_if<QueuePop>(&op.request);
    if (pop != nullptr && op.good()) {
      queues[{op.job, pop->key}][std::get<Popped>(**op.answer).value].pops.push_back(&op);
    }
  }
  return queues;
}

bool session_ended(const Records& records, const Op& op) {
  if (records.dead_clients.contains(op.client)) return true;
  const auto it = records.sessions.find(op.session);
  return it != records.sessions.end() && (it->second.ended || it->second.said_goodbye);
}

Judgement judge_item(const Records& records, const Bytes& value, const Item& item, bool drained) {
  if (item.push == nullptr) {
    return Violation{"queues", describe(*item.pops.front()) + ": nobody pushed it"};
  }
  if (!item.pops.empty() && !item.durable) {
    return Violation{"queues", describe(*item.pops.front()) + ": its push is not durable"};
  }
  if (drained && item.durable && item.pops.empty()) {
    return Violation{"queues", describe(*item.push) + ": " + value + " was never popped"};
  }
  for (std::size_t i = 0; i + 1 < item.pops.size(); ++i) {
    if (session_ended(records, *item.pops[i])) continue;
    return Violation{"queues", value + " was popped twice: " + describe(*item.pops[i]) + " and " +
                                   describe(*item.pops[i + 1])};
  }
  return std::nullopt;
}

/// Items that nobody can have held for a while must come in the order of their pushes.
Judgement judge_order(const Records& records, const Bytes& key, const Queue& queue) {
  std::uint64_t first_doubt = ~std::uint64_t{0};
  for (const Op& op : records.ops) {
    const auto* pop = std::get_if<QueuePop>(&op.request);
    if (pop == nullptr || pop->key != key) continue;
    const bool in_doubt = !op.good() || session_ended(records, op);
    if (in_doubt && op.code() != Code::not_found) first_doubt = std::min(first_doubt, op.invoked);
  }
  for (const auto& [later_value, later] : queue) {
    if (later.pops.empty() || later.pops.front()->answered > first_doubt) continue;
    for (const auto& [value, item] : queue) {
      if (item.pops.empty() || item.push->answered == 0 || !item.push->good()) continue;
      const bool pushed_before = item.push->answered < later.push->invoked;
      const bool popped_after = item.pops.front()->invoked > later.pops.front()->answered;
      if (!pushed_before || !popped_after) continue;
      return Violation{"queues", later_value + " overtook " + value + ": " +
                                     describe(*later.pops.front()) + " before " +
                                     describe(*item.pops.front())};
    }
  }
  return std::nullopt;
}

}  // namespace

Judgement judge_queues(const Records& records) {
  for (const auto& [where, queue] : collect(records)) {
    for (const auto& [value, item] : queue) {
      if (auto bad = judge_item(records, value, item, records.drained)) return bad;
    }
    if (auto bad = judge_order(records, where.second, queue)) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
