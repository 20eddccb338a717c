// SPDX-License-Identifier: Apache-2.0
// The rules for what was seen together, in an order, or taken away.
#include <algorithm>
#include <optional>

#include "tests/sim/linearize.h"
#include "tests/torture/desk.h"
#include "tests/torture/judge.h"

namespace c10dd::torture {
namespace {

std::optional<sim::KeyCall::Kind> kind_of(What what) {
  using Kind = sim::KeyCall::Kind;
  switch (what) {
    case What::set:
    case What::multi_set:
      return Kind::set;
    case What::get:
    case What::multi_get:
      return Kind::get;
    case What::exists:
      return Kind::exists;
    case What::add:
      return Kind::add;
    case What::append:
      return Kind::append;
    case What::compare_set:
      return Kind::compare_set;
    case What::remove:
      return Kind::remove;
    default:
      return std::nullopt;
  }
}

/// Twice the time, so that what begins in the nanosecond in which another ends is beside it.
std::optional<sim::KeyCall> key_call(const Call& call) {
  const auto kind = kind_of(call.what);
  if (!kind || !call.error.empty()) return std::nullopt;
  sim::KeyCall made;
  made.kind = *kind;
  made.input = call.input;
  made.expected = call.expected;
  made.delta = call.delta;
  made.invoked = 2 * call.invoked;
  made.answered = 2 * call.answered + 1;
  made.known = call.good();
  made.yes = call.yes;
  made.value = call.value;
  made.number = call.number;
  return made;
}

Call final_get(const std::string& key, const Entry* entry, std::uint64_t when) {
  Call call = call_of(What::get, key);
  call.invoked = when;
  call.answered = when + 1;
  call.yes = entry != nullptr;
  if (entry != nullptr) call.value = entry->value;
  return call;
}

}  // namespace

void Judge::any_key(const std::string& key, const Calls& calls) {
  std::vector<sim::KeyCall> history;
  for (const Call* call : calls) {
    if (auto made = key_call(*call)) history.push_back(std::move(*made));
  }
  const bool is_group = key.ends_with('/');
  const Call end = final_get(key, at_end(is_group ? key + "0" : key), round_.ended);
  history.push_back(*key_call(end));
  ++verdict_.keys_judged;
  switch (sim::linearize(std::move(history))) {
    case sim::Verdict::linearizable:
      return;
    case sim::Verdict::undecided:
      ++verdict_.keys_undecided;
      return;
    case sim::Verdict::violated:
      Calls shown = calls;
      std::sort(shown.begin(), shown.end(),
                [](const Call* a, const Call* b) { return a->invoked > b->invoked; });
      shown.insert(shown.begin(), &end);
      fault(Fault::order, key + ": no order explains its calls; the last ones", shown);
  }
}

/// All keys of the group together are one register, if nothing is torn.
void Judge::group(const std::string& key, const Calls& calls) {
  bool whole = true;
  for (const Call* call : calls) {
    if (call->what != What::multi_get || !call->good() || call->yes) continue;
    whole = false;
    fault(Fault::torn, key + ": half of a multi_set was seen", {call});
  }
  const Entry* first = at_end(key + "0");
  for (unsigned i = 1; i < kGroup; ++i) {
    const Entry* other = at_end(key + std::to_string(i));
    if (first != nullptr && other != nullptr && first->value == other->value) continue;
    whole = false;
    fault(Fault::torn, key + ": half of a multi_set is there at the end");
  }
  if (whole) any_key(key, calls);
}

void Judge::bank(const std::string& key, const Calls& calls) {
  Calls transfers;
  std::int64_t moved = 0;
  std::int64_t open = 0;
  for (const Call* call : calls) {
    if (call->what == What::balance && call->good() && !call->yes) {
      fault(Fault::torn, key + ": half of a transfer was seen", {call});
    }
    if (call->what != What::transfer) continue;
    transfers.push_back(call);
    if (call->open()) open += call->delta;
    if (!call->good() || !call->yes) continue;
    moved += call->delta;
    const std::size_t space = call->value.find(' ');
    if (std::stoll(call->value) + std::stoll(call->value.substr(space)) != 0) {
      fault(Fault::torn, key + ": a transfer was told sums that are not even", {call});
    }
  }
  counter(key + "count", transfers);
  const std::int64_t a = number_at_end(key + "a");
  const std::int64_t b = number_at_end(key + "b");
  const std::string text = key + ": at the end a is " + std::to_string(a) + " and b " +
                           std::to_string(b) + ", moved were " + std::to_string(moved);
  if (a + b != 0) fault(Fault::torn, text);
  if (b < moved) fault(Fault::lost, text);
  if (b > moved + open) fault(Fault::twice, text);
}

void Judge::queue(const std::string& key, const Calls& calls) {
  std::map<std::string, const Call*> pushes;
  std::map<std::string, Calls> pops;
  std::uint64_t open_pops = 0;  // each of these may have taken one and told nobody
  for (const Call* call : calls) {
    if (call->what == What::push && call->error.empty()) pushes[call->input] = call;
    if (call->what == What::pop && call->good() && call->yes) pops[call->value].push_back(call);
    if (call->what == What::pop && call->open()) ++open_pops;
  }
  Calls missing;
  for (const auto& [item, push] : pushes) {
    if (item == kEnd) continue;
    const Calls& takers = pops[item];
    if (takers.empty() && push->good()) missing.push_back(push);
    const auto alive = std::count_if(takers.begin(), takers.end(), [&](const Call* call) {
      return !round_.killed.contains(call->worker);
    });
    if (alive > 1) fault(Fault::twice, key + ": popped twice", takers);
  }
  for (const auto& [item, takers] : pops) {
    if (!pushes.contains(item))
      fault(Fault::order, key + ": nobody pushed what was popped", takers);
  }
  if (missing.size() > open_pops) {
    fault(Fault::lost, key + ": pushed, but nobody popped it", missing, missing.size() - open_pops);
  }
}

/// Of two items pushed one after the other the first is not popped after the second. What a killed
/// process had claimed came back later: it is left out.
void Judge::first_in_first_out(const std::string& key, const Calls& calls) {
  struct Item {
    const Call* push = nullptr;
    const Call* pop = nullptr;
  };
  std::map<std::string, Item> by_value;
  for (const Call* call : calls) {
    if (call->what == What::push && call->good()) by_value[call->input].push = call;
    if (call->what == What::pop && call->good() && call->yes) by_value[call->value].pop = call;
  }
  by_value.erase(kEnd);
  std::vector<Item> items;
  for (const auto& [value, item] : by_value) {
    if (item.push != nullptr && item.pop != nullptr && item.pop->answered < round_.first_kill) {
      items.push_back(item);
    }
  }
  for (const Item& first : items) {
    for (const Item& second : items) {
      if (first.push->answered < second.push->invoked &&
          second.pop->answered < first.pop->invoked) {
        fault(Fault::order, key + ": popped out of order",
              {first.push, second.push, second.pop, first.pop});
      }
    }
  }
}

void Judge::watch(unsigned worker, const History& history) {
  const std::string who = "the watch of process " + std::to_string(worker);
  std::map<std::uint64_t, const Call*> writes;
  std::set<std::pair<std::string, std::string>> open;
  if (history.seen.empty()) return;
  for (const auto& [key, calls] : by_key_) {
    if (!key.starts_with(round_.prefix + "reg/")) continue;
    for (const Call* call : calls) {
      if (call->what != What::set) continue;
      if (call->good()) writes[call->revision] = call;
      if (call->open()) open.emplace(key, call->input);
    }
  }
  std::uint64_t last = 0;
  std::set<std::uint64_t> seen;
  for (const Seen& one : history.seen) {
    const std::string text = who + " showed revision " + std::to_string(one.revision) + ", " +
                             one.key + " = " + one.value;
    if (one.revision <= last) fault(Fault::watch, text + ", after " + std::to_string(last));
    last = one.revision;
    seen.insert(last);
    const auto it = writes.find(last);
    const bool true_to_it = it != writes.end()
                                ? it->second->key == one.key && it->second->input == one.value
                                : open.contains({one.key, one.value});
    if (!true_to_it) fault(Fault::watch, text + ", which nobody wrote");
  }
  for (const auto& [revision, write] : writes) {
    if (revision > last) break;
    if (!seen.contains(revision)) fault(Fault::watch, who + " left out a change", {write});
  }
}

}  // namespace c10dd::torture
