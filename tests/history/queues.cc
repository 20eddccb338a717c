// SPDX-License-Identifier: Apache-2.0
#include "tests/history/queues.h"

#include <algorithm>

namespace c10dd::history {
namespace {

struct Item {
  const Op* push = nullptr;
  Ops pops = {};
};

struct Queue {
  std::map<Bytes, Item> items;
  std::uint64_t first_doubt = ~std::uint64_t{0};  ///< begin of the first pop that may hold an item
  std::uint64_t unanswered = 0;                   ///< pops
};

std::map<Bytes, Queue> collect(const Ops& ops) {
  std::map<Bytes, Queue> queues;
  for (const Op* op : ops) {
    if (const auto* push = std::get_if<QueuePush>(&op->request)) {
      queues[push->key].items[push->value].push = op;
    } else if (const auto* transact = std::get_if<Transact>(&op->request)) {
      for (const Action& action : transact->actions) {
        if (action.kind == Action::Kind::push) queues[action.key].items[action.value].push = op;
      }
    } else if (const auto* pop = std::get_if<QueuePop>(&op->request)) {
      Queue& queue = queues[pop->key];
      if (op->good()) {
        queue.items[op->told<Popped>().value].pops.push_back(op);
      } else if (op->code() != Code::not_found) {
        queue.first_doubt = std::min(queue.first_doubt, op->invoked);
      }
      if (!op->reply) ++queue.unanswered;
    }
  }
  return queues;
}

std::optional<bool> pushed(const QueueFacts& facts, const Op& push) {
  if (facts.done) return facts.done(push);
  const auto* transacted = push.good() ? std::get_if<Transacted>(&**push.reply) : nullptr;
  if (transacted != nullptr) return transacted->applied;
  if (push.good()) return true;
  return push.open_ended() ? std::nullopt : std::optional(false);
}

/// Checks that an item that a session has popped is popped by no other one, unless that session
/// ended.
void judge_pops(const QueueFacts& facts, const Bytes& value, const Ops& pops,
                FoundFaults& findings) {
  for (const Op* one : pops) {
    if (facts.session_ended(*one)) continue;
    for (const Op* other : pops) {
      const bool came_back = facts.session_ended(*other) && other->invoked < one->answered;
      if (other == one || came_back) continue;
      findings.push_back({Fault::twice, value + " was popped twice", {one, other}});
      return;
    }
  }
}

/// Checks that of two items the one that was pushed first is popped first, unless a pop may hold
/// it.
void judge_order(const Queue& queue, FoundFaults& findings) {
  std::vector<const Item*> popped;
  for (const auto& [value, item] : queue.items) {
    if (item.push != nullptr && !item.pops.empty()) popped.push_back(&item);
  }
  for (const Item* later : popped) {
    const Op& overtook = *later->pops.front();
    if (overtook.answered > queue.first_doubt) continue;
    for (const Item* item : popped) {
      if (!item->push->good() || item->push->answered >= later->push->invoked) continue;
      if (item->pops.front()->invoked <= overtook.answered) continue;
      findings.push_back({Fault::order,
                          "items were popped out of order",
                          {item->push, later->push, &overtook, item->pops.front()}});
    }
  }
}

}  // namespace

FoundFaults judge_queues(const Ops& ops, const QueueFacts& facts) {
  FoundFaults findings;
  for (const auto& [key, queue] : collect(ops)) {
    FoundFault missing{Fault::lost, key + ": pushed, but never popped"};
    for (const auto& [value, item] : queue.items) {
      if (item.push == nullptr) {
        findings.push_back({Fault::order, key + ": nobody pushed " + value, item.pops});
        continue;
      }
      const std::optional<bool> is_there = pushed(facts, *item.push);
      if (is_there == false && !item.pops.empty()) {
        findings.push_back({Fault::order, key + ": popped, but its push was not done", item.pops});
      }
      if (is_there == true && item.pops.empty()) missing.calls.push_back(item.push);
      judge_pops(facts, value, item.pops, findings);
    }
    const std::uint64_t taken = facts.answers_may_be_missing ? queue.unanswered : 0;
    if (facts.drained && missing.calls.size() > taken) {
      missing.count = missing.calls.size() - taken;
      findings.push_back(std::move(missing));
    }
    const bool any_order = facts.keeps_items && facts.keeps_items(key);
    if (!any_order) judge_order(queue, findings);
  }
  return findings;
}

}  // namespace c10dd::history
