// SPDX-License-Identifier: Apache-2.0
// The rules for changes that leave a trace in the state.
#include "tests/torture/judge.h"

#include <algorithm>
#include <numeric>

namespace c10dd::torture {
namespace {

constexpr std::size_t kEvidenceMax = 60;
constexpr std::uint64_t kEvidenceOfAKind = 8;
constexpr std::size_t kCallsShown = 12;

}  // namespace

std::uint64_t Verdict::faults() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

void Verdict::add(const Verdict& other) {
  for (std::size_t i = 0; i < kFaults; ++i) counts[i] += other.counts[i];
  evidence.insert(evidence.end(), other.evidence.begin(), other.evidence.end());
  if (evidence.size() > kEvidenceMax) evidence.resize(kEvidenceMax);
  keys_judged += other.keys_judged;
  keys_undecided += other.keys_undecided;
}

Judge::Judge(const RoundRecord& round) : round_(round) {
  for (const auto& [worker, history] : round.histories) {
    for (const Call& call : history.calls) by_key_[call.key].push_back(&call);
  }
}

Verdict Judge::judge() {
  calls_end();
  for (const auto& [key, calls] : by_key_) {
    if (!key.starts_with(round_.prefix)) continue;
    const std::string name = key.substr(round_.prefix.size());
    const auto in = [&](std::string_view folder) { return name.starts_with(folder); };
    if (in("reg/")) registers(key, calls);
    if (in("own/") || name == "sum") counter(key, calls);
    if (in("log/")) log(key, calls);
    if (name == "chain") chain(key, calls);
    if (name == "bank/") bank(key, calls);
    if (name == "group/") group(key, calls);
    if (in("any/") || in("ping/") || in("pong/")) any_key(key, calls);
    if (name == "patient" || name == "impatient") queue(key, calls);
    if (name == "patient") first_in_first_out(key, calls);
  }
  for (const auto& [worker, history] : round_.histories) {
    watch(worker, history);
    for (const std::string& flaw : history.flaws) {
      fault(flaw.starts_with("the watch") ? Fault::watch : Fault::other,
            "process " + std::to_string(worker) + ": " + flaw);
    }
    if (history.sessions_lost > 0) {
      fault(Fault::other, "process " + std::to_string(worker) + " lost a session");
    }
  }
  return std::move(verdict_);
}

Verdict Judge::unanswered() {
  calls_end();
  return std::move(verdict_);
}

void Judge::fault(Fault fault, const std::string& text, const Calls& calls, std::uint64_t count) {
  const auto kind = static_cast<std::size_t>(fault);
  verdict_.counts[kind] += count;
  if (++shown_[kind] > kEvidenceOfAKind) return;
  std::string line = std::string(kFaultNames[kind]) + ": " + text;
  for (std::size_t i = 0; i < calls.size() && i < kCallsShown; ++i) {
    line += "\n    " + describe(*calls[i]);
  }
  if (calls.size() > kCallsShown) line += "\n    and " + std::to_string(calls.size() - kCallsShown);
  verdict_.evidence.push_back(std::move(line));
}

const Entry* Judge::at_end(const std::string& key) const {
  const auto it = round_.state.find(key);
  return it == round_.state.end() ? nullptr : &it->second;
}

std::int64_t Judge::number_at_end(const std::string& key) const {
  const Entry* entry = at_end(key);
  return entry == nullptr ? 0 : std::stoll(entry->value);
}

void Judge::calls_end() {
  for (const auto& [worker, history] : round_.histories) {
    for (const Call& call : history.calls) {
      if (!call.error.empty()) fault(Fault::failed, "a call failed", {&call});
      if (call.open() && !round_.killed.contains(worker)) {
        fault(Fault::failed, "a call was never answered", {&call});
      }
    }
  }
}

/// Whoever asks after an answer gets a later place than that answer had; a read at least the same.
void Judge::placed_in_order(const std::string& key, std::vector<Placed> placed) {
  std::vector<Placed> answered = placed;
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.call->invoked < b.call->invoked; });
  std::sort(answered.begin(), answered.end(),
            [](const Placed& a, const Placed& b) { return a.call->answered < b.call->answered; });
  auto next = answered.begin();
  const Placed* newest = nullptr;
  std::map<std::uint64_t, const Call*> changes;
  for (const Placed& one : placed) {
    for (; next != answered.end() && next->call->answered < one.call->invoked; ++next) {
      if (newest == nullptr || next->position > newest->position) newest = &*next;
    }
    if (one.change && !changes.emplace(one.position, one.call).second) {
      fault(Fault::lost, key + ": two changes have the same place",
            {changes[one.position], one.call});
    }
    if (newest == nullptr) continue;
    if (!one.change && one.position < newest->position) {
      fault(Fault::lost, key + ": a read did not see what was answered before it was asked",
            {newest->call, one.call});
    } else if (one.change && one.position <= newest->position) {
      fault(Fault::order, key + ": a change was put before an earlier one",
            {newest->call, one.call});
    }
  }
}

void Judge::registers(const std::string& key, const Calls& calls) {
  std::vector<Placed> placed;
  std::map<std::uint64_t, const Call*> writes;
  std::map<std::string, const Call*> open;  // by what they wrote
  for (const Call* call : calls) {
    if (call->what == What::set && call->open()) open[call->input] = call;
    if (call->what == What::set && call->good()) writes[call->revision] = call;
    if (call->good()) placed.push_back({call, call->revision, call->what == What::set});
  }
  const auto written = [&](std::uint64_t revision, const std::string& value) {
    const auto it = writes.find(revision);
    return it != writes.end() ? it->second->input == value : open.contains(value);
  };
  for (const Call* call : calls) {
    if (call->what != What::get || !call->good() || !call->yes) continue;
    if (!written(call->revision, call->value)) {
      fault(Fault::order, key + ": nobody wrote what was read", {call});
    }
  }
  placed_in_order(key, placed);
  const Entry* end = at_end(key);
  const std::uint64_t revision = end == nullptr ? 0 : end->revision;
  for (const Placed& one : placed) {
    if (one.position > revision) {
      fault(Fault::lost, key + ": at the end it has revision " + std::to_string(revision),
            {one.call});
    }
  }
  if (end != nullptr && !written(end->revision, end->value)) {
    fault(Fault::order, key + ": nobody wrote \"" + end->value + "\", which is there at the end");
  }
}

/// Every add was of 1: the sum that each was told is its place.
void Judge::counter(const std::string& key, const Calls& calls) {
  const std::int64_t end = number_at_end(key);
  std::vector<Placed> placed;
  std::int64_t open = 0;
  for (const Call* call : calls) {
    if (call->what == What::transfer && call->good() && !call->yes) continue;
    if (call->open()) ++open;
    if (!call->good()) continue;
    placed.push_back({call, static_cast<std::uint64_t>(call->number), true});
    if (call->number < 1 || call->number > end) {
      fault(Fault::lost, key + " is " + std::to_string(end) + " at the end", {call});
    }
  }
  const auto good = static_cast<std::int64_t>(placed.size());
  const std::string text = key + " is " + std::to_string(end) + " at the end, after " +
                           std::to_string(good) + " acknowledged adds of 1 and " +
                           std::to_string(open) + " of killed processes";
  if (end < good) fault(Fault::lost, text, {}, static_cast<std::uint64_t>(good - end));
  if (end > good + open) {
    fault(Fault::twice, text, {}, static_cast<std::uint64_t>(end - good - open));
  }
  placed_in_order(key, std::move(placed));
}

void Judge::log(const std::string& key, const Calls& calls) {
  const Entry* end = at_end(key);
  const std::string text = end == nullptr ? "" : end->value;
  std::map<std::string, std::vector<std::size_t>> places;  // of each word
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t stop = std::min(text.find(';', at), text.size() - 1) + 1;
    places[text.substr(at, stop - at)].push_back(at);
    at = stop;
  }
  for (const Call* call : calls) {
    const std::vector<std::size_t> found = places[call->input];
    places.erase(call->input);
    if (found.size() > 1) fault(Fault::twice, key + ": appended twice", {call}, found.size() - 1);
    if (!call->good()) continue;
    if (found.empty()) {
      fault(Fault::lost, key + ": appended, but not there at the end", {call});
    } else if (found[0] + call->input.size() != static_cast<std::size_t>(call->number)) {
      fault(Fault::order, key + ": appended at " + std::to_string(found[0]), {call});
    }
  }
  for (const auto& [word, where] : places) {
    fault(Fault::order, key + ": nobody appended " + word);
  }
}

/// Each value was put in the place of the one before; the last one leads back to the beginning.
void Judge::chain(const std::string& key, const Calls& calls) {
  std::map<std::string, const Call*> by_input;
  std::map<std::string, const Call*> by_expected;
  for (const Call* call : calls) {
    if (call->open()) by_input[call->input] = call;
    if (!call->good() || !call->yes) continue;
    by_input[call->input] = call;
    const auto [other, first] = by_expected.emplace(call->expected, call);
    if (!first) fault(Fault::lost, key + ": two took the same place", {other->second, call});
  }
  std::set<std::string> links;
  const Entry* end = at_end(key);
  for (std::string value = end == nullptr ? "" : end->value; !value.empty();) {
    const auto link = by_input.find(value);
    if (link == by_input.end() || !links.insert(value).second) {
      fault(Fault::order, key + ": nobody put there " + value);
      break;
    }
    value = link->second->expected;
  }
  for (const Call* call : calls) {
    if (!call->good()) continue;
    const std::string& told = call->yes ? call->input : call->value;
    if (!told.empty() && !links.contains(told)) {
      fault(Fault::lost, key + ": not among what led to the end: " + told, {call});
    }
  }
}

}  // namespace c10dd::torture
