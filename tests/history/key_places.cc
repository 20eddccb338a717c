// SPDX-License-Identifier: Apache-2.0
// The judges of keys whose replies contain the position of the call in the order of changes.
#include <algorithm>
#include <set>

#include "tests/history/keys.h"

namespace c10dd::history {
namespace {

using Kind = KeyCall::Kind;

/// A call and its place in the order of changes, such as a revision.
struct Placed {
  const Op* op;
  std::uint64_t place;
  bool change;
};

/// Checks calls that begin after another call was answered: a change must have a later place than
/// that call, and a read must not have an earlier one.
void judge_places(const Bytes& key, std::vector<Placed> placed, FoundFaults& findings) {
  std::vector<Placed> answered = placed;
  std::ranges::sort(placed, {}, [](const Placed& one) { return one.op->invoked; });
  std::ranges::sort(answered, {}, [](const Placed& one) { return one.op->answered; });
  auto next = answered.begin();
  const Placed* newest = nullptr;
  std::map<std::uint64_t, const Op*> changes;
  for (const Placed& one : placed) {
    for (; next != answered.end() && next->op->answered < one.op->invoked; ++next) {
      if (newest == nullptr || next->place > newest->place) newest = &*next;
    }
    if (one.change && !changes.emplace(one.place, one.op).second) {
      findings.push_back(
          {Fault::lost, key + ": two changes have the same place", {changes[one.place], one.op}});
    }
    if (newest == nullptr) continue;
    if (!one.change && one.place < newest->place) {
      findings.push_back({Fault::lost,
                          key + ": a read did not see what was answered before it was asked",
                          {newest->op, one.op}});
    } else if (one.change && one.place <= newest->place) {
      findings.push_back(
          {Fault::order, key + ": a change was put before an earlier one", {newest->op, one.op}});
    }
  }
}

/// Returns the value that the last get returned; empty if there is no get or the key was missing.
Bytes value_at_end(const KeyCalls& calls) {
  const KeyCall* last = nullptr;
  for (const KeyCall& call : calls) {
    if (call.kind != Kind::get) continue;
    if (last == nullptr || call.invoked > last->invoked) last = &call;
  }
  return last == nullptr ? Bytes() : last->value;
}

std::int64_t number_in(const Bytes& value) { return value.empty() ? 0 : std::stoll(value); }

}  // namespace

FoundFaults judge_register(const Bytes& key, const KeyCalls& calls) {
  FoundFaults findings;
  std::vector<Placed> placed;
  std::map<Revision, const KeyCall*> sets;
  std::set<Bytes> unknown;
  for (const KeyCall& call : calls) {
    if (call.kind == Kind::set && !call.known) unknown.insert(call.input);
    if (call.kind == Kind::set && call.known) sets[call.revision] = &call;
    if (call.kind != Kind::set && call.kind != Kind::get) continue;
    if (call.known) placed.push_back({call.op, call.revision, call.kind == Kind::set});
  }
  for (const KeyCall& call : calls) {
    if (call.kind != Kind::get || !call.yes) continue;
    const auto set = sets.find(call.revision);
    if (set == sets.end() ? unknown.contains(call.value) : set->second->input == call.value) {
      continue;
    }
    findings.push_back({Fault::order, key + ": nobody set it to what was got", {call.op}});
  }
  judge_places(key, std::move(placed), findings);
  return findings;
}

FoundFaults judge_sum(const Bytes& key, const KeyCalls& calls) {
  FoundFaults findings;
  std::vector<Placed> placed;
  std::int64_t known = 0;
  std::int64_t unknown = 0;
  for (const KeyCall& call : calls) {
    const bool adds = call.kind == Kind::add;
    if (!adds && call.kind != Kind::get) continue;
    if (adds) ++(call.known ? known : unknown);
    if (!call.known) continue;
    const std::int64_t sum = adds ? call.number : number_in(call.value);
    placed.push_back({call.op, static_cast<std::uint64_t>(sum), adds});
  }
  const std::int64_t end = number_in(value_at_end(calls));
  const std::string text = key + " is " + std::to_string(end) + " at the end, after " +
                           std::to_string(known) + " acknowledged adds of 1 and " +
                           std::to_string(unknown) + " of unknown outcome";
  if (end < known) {
    findings.push_back({Fault::lost, text, {}, static_cast<std::uint64_t>(known - end)});
  }
  if (end > known + unknown) {
    findings.push_back({Fault::twice, text, {}, static_cast<std::uint64_t>(end - known - unknown)});
  }
  judge_places(key, std::move(placed), findings);
  return findings;
}

FoundFaults judge_words(const Bytes& key, const KeyCalls& calls) {
  FoundFaults findings;
  const Bytes text = value_at_end(calls);
  std::map<Bytes, std::vector<std::size_t>> places;  // of each word
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t stop = std::min(text.find(';', at), text.size() - 1) + 1;
    places[text.substr(at, stop - at)].push_back(at);
    at = stop;
  }
  for (const KeyCall& call : calls) {
    if (call.kind != Kind::append) continue;
    const std::vector<std::size_t> found = places[call.input];
    places.erase(call.input);
    if (found.size() > 1) {
      findings.push_back({Fault::twice, key + ": appended twice", {call.op}, found.size() - 1});
    }
    if (!call.known) continue;
    if (found.empty()) {
      findings.push_back({Fault::lost, key + ": appended, but not there at the end", {call.op}});
    } else if (found[0] + call.input.size() != static_cast<std::size_t>(call.number)) {
      findings.push_back(
          {Fault::order, key + ": appended at " + std::to_string(found[0]), {call.op}});
    }
  }
  for (const auto& [word, where] : places) {
    findings.push_back({Fault::order, key + ": nobody appended " + word});
  }
  return findings;
}

FoundFaults judge_chain(const Bytes& key, const KeyCalls& calls) {
  FoundFaults findings;
  std::map<Bytes, const KeyCall*> by_input;
  std::map<Bytes, const KeyCall*> by_expected;
  for (const KeyCall& call : calls) {
    if (call.kind != Kind::compare_set || (call.known && !call.yes)) continue;
    by_input[call.input] = &call;
    if (!call.known) continue;
    const auto [other, first] = by_expected.emplace(call.expected, &call);
    if (!first) {
      findings.push_back(
          {Fault::lost, key + ": two took the same place", {other->second->op, call.op}});
    }
  }
  std::set<Bytes> links;
  for (Bytes value = value_at_end(calls); !value.empty();) {
    const auto link = by_input.find(value);
    if (link == by_input.end() || !links.insert(value).second) {
      findings.push_back({Fault::order, key + ": nobody put there " + value});
      break;
    }
    value = link->second->expected;
  }
  for (const KeyCall& call : calls) {
    if (call.kind != Kind::compare_set || !call.known) continue;
    const Bytes& told = call.yes ? call.input : call.value;
    if (!told.empty() && !links.contains(told)) {
      findings.push_back(
          {Fault::lost, key + ": not among what led to the end: " + told, {call.op}});
    }
  }
  return findings;
}

}  // namespace c10dd::history
