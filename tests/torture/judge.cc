// SPDX-License-Identifier: Apache-2.0
// Which judge of histories judges which work, and the rules for keys that change together.
#include "tests/torture/judge.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "tests/history/queues.h"
#include "tests/history/watches.h"
#include "tests/torture/desk.h"

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
  searched.keys += other.searched.keys;
  searched.undecided += other.searched.undecided;
}

Judge::Judge(const RoundRecord& round) : round_(round) {
  for (const auto& [client, history] : round.histories) {
    for (const Op& op : history.ops) ops_.push_back(&op);
  }
  std::ranges::stable_sort(ops_, {}, &Op::invoked);
}

Verdict Judge::judge() {
  calls_end();
  keys();
  whole();
  bank();
  queues();
  watches();
  for (const auto& [client, history] : round_.histories) {
    const std::string process = "process " + std::to_string(client);
    for (const std::string& flaw : history.flaws) {
      fault({flaw.starts_with("the watch") ? Fault::watch : Fault::other, process + ": " + flaw});
    }
    if (history.sessions_lost > 0) fault({Fault::other, process + " lost a session"});
  }
  return std::move(verdict_);
}

Verdict Judge::unanswered() {
  calls_end();
  return std::move(verdict_);
}

void Judge::fault(history::FoundFault finding) {
  const auto kind = static_cast<std::size_t>(finding.fault);
  verdict_.counts[kind] += finding.count;
  if (++shown_[kind] > kEvidenceOfAKind) return;
  std::string line = std::string(kFaultNames[kind]) + ": " + finding.text;
  const history::Ops& calls = finding.calls;
  const std::size_t skipped = calls.size() - std::min(calls.size(), kCallsShown);
  if (skipped > 0) line += "\n    " + std::to_string(skipped) + " calls, then";
  for (std::size_t i = skipped; i < calls.size(); ++i) line += "\n    " + describe(*calls[i]);
  verdict_.evidence.push_back(std::move(line));
}

void Judge::faults(history::FoundFaults findings) {
  for (history::FoundFault& finding : findings) fault(std::move(finding));
}

/// Returns a get of the final value, as if the conductor had made it after all calls had ended.
Op Judge::last_get(const Bytes& key) const {
  Op op;
  op.request = Get{key, {}};
  op.invoked = round_.ended;
  op.answered = round_.ended + 1;
  const auto it = round_.state.find(key);
  if (it == round_.state.end()) {
    op.reply = Reply(failure(Code::not_found, ""));
  } else {
    op.reply = Reply(ReplyBody(Value{it->second.value, it->second.revision}));
  }
  return op;
}

std::int64_t Judge::number_at_end(const std::string& name) const {
  const auto it = round_.state.find(round_.prefix + name);
  return it == round_.state.end() ? 0 : std::stoll(it->second.value);
}

void Judge::calls_end() {
  for (const Op* op : ops_) {
    if (op->reply && !op->good() && !found_nothing(*op)) {
      fault({Fault::failed, "a call failed", {op}});
    }
    if (!op->reply && !round_.killed.contains(op->client)) {
      fault({Fault::failed, "a call was never answered", {op}});
    }
  }
}

void Judge::keys() {
  history::CallsByKey by_key;
  const history::Wanted wanted = [&](const Bytes& key) { return key.starts_with(round_.prefix); };
  for (const Op* op : ops_) history::take_apart(*op, wanted, by_key);
  for (auto& [key, calls] : by_key) {
    last_gets_.push_back(last_get(key));
    history::take_apart(last_gets_.back(), wanted, by_key);
    const std::string name = key.substr(round_.prefix.size());
    const auto in = [&](std::string_view folder) { return name.starts_with(folder); };
    if (in("reg/")) faults(history::judge_register(key, calls));
    if (in("own/") || name == "sum" || name == "bank/count") {
      faults(history::judge_sum(key, calls));
    }
    if (in("log/")) faults(history::judge_words(key, calls));
    if (name == "chain") faults(history::judge_chain(key, calls));
    // All keys of the group have equal values if no multi_set is torn, so only the first is judged.
    if (in("any/") || in("ping/") || in("pong/") || name == "group/0") {
      faults(history::judge_order_of_calls(key, calls, verdict_.searched));
    }
  }
}

/// Checks that the keys of the group always have equal values, like one register.
void Judge::whole() {
  const std::string group = round_.prefix + "group/";
  for (const Op* op : ops_) {
    const auto* get = std::get_if<MultiGet>(&op->request);
    if (get == nullptr || !op->good() || !get->keys.at(0).starts_with(group)) continue;
    const std::vector<Bytes>& values = op->told<Values>().values;
    if (std::ranges::all_of(values, [&](const Bytes& value) { return value == values[0]; })) {
      continue;
    }
    fault({Fault::torn, group + ": half of a multi_set was seen", {op}});
  }
  std::vector<Bytes> at_end;
  for (auto it = round_.state.lower_bound(group);
       it != round_.state.end() && it->first.starts_with(group); ++it) {
    at_end.push_back(it->second.value);
  }
  const bool even = at_end.empty() || at_end == std::vector<Bytes>(kGroup, at_end[0]);
  if (!even) fault({Fault::torn, group + ": half of a multi_set is there at the end"});
}

/// Checks that each amount that leaves account a arrives in account b.
void Judge::bank() {
  const std::string folder = round_.prefix + "bank/";
  std::int64_t moved = 0;
  std::int64_t open = 0;
  for (const Op* op : ops_) {
    if (const auto* get = std::get_if<MultiGet>(&op->request); get != nullptr && op->good()) {
      const std::vector<Bytes>& values = op->told<Values>().values;
      if (get->keys.at(0).starts_with(folder) &&
          std::stoll(values.at(0)) != -std::stoll(values.at(1))) {
        fault({Fault::torn, folder + ": half of a transfer was seen", {op}});
      }
    }
    const auto* transfer = std::get_if<Transact>(&op->request);
    if (transfer == nullptr) continue;
    const auto into = std::ranges::find(transfer->actions, folder + "b", &Action::key);
    if (!op->reply) open += into->delta;
    if (!op->good() || !op->told<Transacted>().applied) continue;
    moved += into->delta;
    const std::vector<std::int64_t>& sums = op->told<Transacted>().sums;
    if (sums.at(0) + sums.at(1) != 0) {
      fault({Fault::torn, folder + ": a transfer was told sums that are not even", {op}});
    }
  }
  const std::int64_t a = number_at_end("bank/a");
  const std::int64_t b = number_at_end("bank/b");
  const std::string text = folder + ": at the end a is " + std::to_string(a) + " and b " +
                           std::to_string(b) + ", moved were " + std::to_string(moved);
  if (a + b != 0) fault({Fault::torn, text});
  if (b < moved) fault({Fault::lost, text});
  if (b > moved + open) fault({Fault::twice, text});
}

void Judge::queues() {
  history::QueueFacts facts;
  facts.session_ended = [&](const Op& op) { return round_.killed.contains(op.client); };
  facts.drained = true;
  facts.answers_may_be_missing = true;
  faults(history::judge_queues(ops_, facts));
}

void Judge::watches() {
  const history::Happened happened = history::happened_by_answers(ops_);
  for (const Op* op : ops_) {
    if (std::holds_alternative<Watch>(op->request) && op->good()) {
      faults(history::judge_watch(*op, happened));
    }
  }
}

}  // namespace c10dd::torture
