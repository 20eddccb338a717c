// SPDX-License-Identifier: Apache-2.0
// A request with a definite error was not applied.
#include <algorithm>

#include "tests/sim/group_log.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

using Logs = std::map<std::string, GroupLog>;  // by job, filled when needed

bool session_lost(const Records& records, std::uint32_t client) {
  for (const auto& [id, facts] : records.sessions) {
    if (facts.client == client && facts.ended) return true;
  }
  return false;
}

bool was_replaced(const Records& records, std::uint32_t client) {
  return std::ranges::any_of(records.sessions, [&](const auto& entry) {
    return entry.second.client == client && entry.second.replaced;
  });
}

/// Returns the generation that the request names: a bound barrier, a report, a leave or a list.
std::pair<std::string, std::uint64_t> generation_in(const Request& request) {
  if (const auto* barrier = std::get_if<Barrier>(&request)) {
    return {barrier->group, barrier->generation};
  }
  if (const auto* exchange = std::get_if<Exchange>(&request)) {
    return {exchange->group, exchange->generation};
  }
  if (const auto* leave = std::get_if<Leave>(&request)) return {leave->group, leave->generation};
  if (const auto* read = std::get_if<ReadMembers>(&request)) return {read->group, read->generation};
  return {};
}

/// Returns true if a newer generation was decided, or if the caller reports and may no longer be a
/// member.
bool generation_was_over(const Records& records, const Op& op, Logs& logs) {
  if (std::holds_alternative<Progress>(op.request)) return true;
  const auto [group, generation] = generation_in(op.request);
  if (group.empty() || generation == 0) return false;
  const GroupLog& log = logs.try_emplace(op.job, records.log(op.job)).first->second;
  const auto newer = [&, &number = generation](const Formation& f) {
    return f.generation > number && f.durable < op.answered;
  };
  return std::ranges::any_of(log.of(group).formations, newer);
}

/// Returns true if the work of a group that the caller joins was finished, durably.
bool work_was_finished(const Records& records, const Op& op, Logs& logs) {
  const auto* join = std::get_if<Join>(&op.request);
  if (join == nullptr) return false;
  const GroupLog& log = logs.try_emplace(op.job, records.log(op.job)).first->second;
  return std::ranges::any_of(log.of(join->group).finishes,
                             [&](std::uint64_t finish) { return finish < op.answered; });
}

/// Returns true if another call at the barrier of this call says another world size.
bool ranks_disagree(const Records& records, const Op& op) {
  const auto* barrier = std::get_if<Barrier>(&op.request);
  return barrier != nullptr && std::ranges::any_of(records.ops, [&](const Op& other) {
           const auto* with = std::get_if<Barrier>(&other.request);
           return with != nullptr && other.job == op.job && with->name == barrier->name &&
                  with->generation == barrier->generation && with->sequence == barrier->sequence &&
                  with->world_size != barrier->world_size;
         });
}

bool explained(const Records& records, const Op& op, Logs& logs) {
  switch (op.code()) {
    case Code::ok:
    case Code::timed_out:
    case Code::not_found:
    case Code::aborted:  // the caller cancelled, or the session said goodbye
    case Code::closed:   // as aborted
      return true;
    case Code::wrong_type:
      return std::holds_alternative<Add>(op.request) ||
             std::holds_alternative<Transact>(op.request);
    case Code::out_of_range:
      return std::holds_alternative<Add>(op.request);
    case Code::compacted:
      return std::holds_alternative<Watch>(op.request);
    case Code::outcome_unknown:
      return session_lost(records, op.client);
    case Code::work_finished:
      return work_was_finished(records, op, logs);
    case Code::stale_generation:
      return generation_was_over(records, op, logs);
    case Code::quota_exceeded:
      return std::holds_alternative<Notify>(op.request);
    case Code::disk_full:
      return records.disk_was_short && info_of(op.request).growth >= Growth::little;
    case Code::session_replaced:
      return was_replaced(records, op.client);
    case Code::rank_taken:  // its session has arrived already, or another process has the rank
    case Code::size_mismatch:
      return op.launch > 0 || session_lost(records, op.client) ||
             (op.code() == Code::size_mismatch && ranks_disagree(records, op));
    default:
      return false;
  }
}

}  // namespace

OptionalViolation judge_errors(const Records& records) {
  Logs logs;
  for (const Op& op : records.ops) {
    if (!explained(records, op, logs)) return Violation{"errors", describe(op)};
  }
  return std::nullopt;
}

OptionalViolation violation_of(const char* oracle, const std::string& job,
                               const history::FoundFaults& findings) {
  if (findings.empty()) return std::nullopt;
  std::string text = job + ": " + findings.front().text;
  for (const Op* op : findings.front().calls) text += "\n    " + describe(*op);
  return Violation{oracle, text};
}

OptionalViolation judge(const Records& records, std::uint64_t* undecided) {
  using Judge = OptionalViolation (*)(const Records&);
  for (const Judge one : {judge_errors, judge_barriers, judge_generations, judge_losses,
                          judge_queues, judge_watches, judge_launches}) {
    if (auto bad = one(records)) return bad;
  }
  if (auto bad = judge_keys(records, undecided)) return bad;
  for (const Judge one : {judge_reads, judge_log, judge_lives}) {
    if (auto bad = one(records)) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
