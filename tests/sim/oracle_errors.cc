// SPDX-License-Identifier: Apache-2.0
// No definite error for a request that was applied.
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

bool session_lost(const Records& records, std::uint32_t client) {
  for (const auto& [id, facts] : records.sessions) {
    if (facts.client == client && facts.ended) return true;
  }
  return false;
}

bool explained(const Records& records, const Op& op) {
  switch (op.code()) {
    case Code::ok:
    case Code::timed_out:
    case Code::not_found:
    case Code::aborted:  // the caller gave up, or the session said goodbye
    case Code::closed:   // likewise
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
    case Code::rank_taken:  // it arrived in its session before
    case Code::size_mismatch:
      return session_lost(records, op.client);
    default:
      return false;
  }
}

}  // namespace

Judgement judge_errors(const Records& records) {
  for (const Op& op : records.ops) {
    if (!explained(records, op)) return Violation{"errors", describe(op)};
  }
  return std::nullopt;
}

Judgement judge(const Records& records, std::uint64_t* undecided) {
  using Judge = Judgement (*)(const Records&);
  for (const Judge one : {judge_errors, judge_meetings, judge_queues, judge_watches}) {
    if (auto bad = one(records)) return bad;
  }
  if (auto bad = judge_keys(records, undecided)) return bad;
  for (const Judge one : {judge_reads, judge_log, judge_lives}) {
    if (auto bad = one(records)) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
