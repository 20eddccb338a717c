// SPDX-License-Identifier: Apache-2.0
// A job that starts again: a session whose rank is given to another one was gone for long enough
// and has no more effect, and no launch fails with the broken outcome of an earlier launch.
#include <algorithm>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/row_key.h"
#include "daemon/core/sessions/sessions.h"
#include "daemon/core/time_left.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

/// Returns how long a session was away before this moment, and whether a daemon that loaded the job
/// at `loaded` had seen it.
struct Away {
  bool seen = false;
  bool here = false;
  TimePoint since;
};

Away away_at(const SessionFacts& facts, TimePoint loaded, TimePoint moment) {
  Away away;
  for (const auto& [when, here] : facts.presence) {
    if (when > moment) break;
    if (!here && (away.here || away.since == TimePoint())) away.since = when;
    away.here = here;
    away.seen = away.seen || (here && when >= loaded);
  }
  return away;
}

/// Returns true if the session was connected at some moment of this time.
bool was_here(const SessionFacts& facts, TimePoint from, TimePoint to) {
  return away_at(facts, {}, from).here ||
         std::ranges::any_of(facts.presence, [&](const auto& change) {
           return change.second && change.first >= from && change.first <= to;
         });
}

/// A clock may run slow, and a loop checks its deadlines a little late.
Duration longest(Duration asked) { return asked * 1'060 / 1'000 + std::chrono::milliseconds(250); }

SessionId session_of(const Row& row) {
  core::RowKeyReader key(row.key);
  const std::uint64_t high = key.number();
  return {high, key.number()};
}

class LaunchJudge {
 public:
  LaunchJudge(const Records& records, const std::string& job) : records_(records), job_(job) {}

  OptionalViolation judge() {
    for (const Step& step : records_.log(job_)) {
      for (const Row& row : step.rows) {
        if (row.kind != Row::Kind::put) continue;
        if (row.key.starts_with('x')) {
          if (auto bad = judge_ended(step, row)) return bad;
        } else if (row.key.starts_with('o')) {
          note_outcome(step, row);
        } else if (row.key.starts_with('s')) {
          note_return(step, row);
        }
      }
    }
    for (const Op& op : records_.ops) {
      if (op.job != job_) continue;
      if (auto bad = judge_call(op)) return bad;
    }
    return std::nullopt;
  }

 private:
  struct Broken {
    const Step* step;
    std::vector<SessionId> sessions;
  };

  OptionalViolation judge_ended(const Step& step, const Row& row) {
    const auto ended = wire::decode<core::EndedRow>(row.value);
    if (!ended || !ended->replaced) return std::nullopt;
    const SessionId id = session_of(row);
    replaced_.try_emplace(id, step.durable);
    const auto known = records_.sessions.find(id);
    const auto loads = records_.loaded_at.find(job_);
    if (known == records_.sessions.end() || known->second.said_goodbye || records_.takeovers > 0 ||
        loads == records_.loaded_at.end()) {
      return std::nullopt;
    }
    TimePoint loaded;
    for (const TimePoint at : loads->second) loaded = at <= step.at ? at : loaded;
    const Away away = away_at(known->second, loaded, step.at);
    const Duration least =
        away.seen ? Duration(limits::kAbsence)
                  : core::left_after_load(left_at(id, loaded), records_.restart_grace());
    const Duration lasted = step.at - (away.seen ? away.since : loaded);
    if (!away.here && lasted >= shortest(least)) return std::nullopt;
    return Violation{"launches",
                     job_ + ": a session of client " + std::to_string(known->second.client) +
                         " was replaced after " +
                         (away.here ? "no" : std::to_string(lasted.count() / 1000) + " us of") +
                         " absence"};
  }

  void note_return(const Step& step, const Row& row) {
    const auto session = wire::decode<core::SessionRow>(row.value);
    if (session) returns_[session_of(row)].emplace_back(step.at, session->return_left);
  }

  /// Returns what the row of a session had of its time to return at this moment; 0: nothing.
  Duration left_at(const SessionId& id, TimePoint moment) const {
    const auto noted = returns_.find(id);
    Duration left{0};
    if (noted == returns_.end()) return left;
    for (const auto& [at, value] : noted->second) {
      if (at <= moment) left = value;
    }
    return left;
  }

  void note_outcome(const Step& step, const Row& row) {
    auto outcome = wire::decode<core::BarrierOutcome>(row.value);
    if (!outcome || outcome->failure.code == Code::ok) return;
    broken_[outcome->failure.detail] = {&step, std::move(outcome->sessions)};
  }

  OptionalViolation judge_call(const Op& op) const {
    const auto over = replaced_.find(op.session);
    const bool goes_on = op.good() && over != replaced_.end() && op.invoked > over->second;
    if (goes_on) {
      return Violation{"launches", describe(op) + ": its session had been replaced"};
    }
    if (op.launch == 0 || !op.reply || *op.reply || !op.reply->error().recorded) return {};
    const auto outcome = broken_.find(op.reply->error().detail);
    if (outcome == broken_.end()) return std::nullopt;
    const auto& [step, sessions] = outcome->second;
    // The failure may be reported if it is of the caller's launch, or if a session that arrived may
    // still be present. Otherwise it belongs to an earlier launch.
    const bool concerned = std::ranges::any_of(sessions, [&](const SessionId& id) {
      const auto known = records_.sessions.find(id);
      if (known == records_.sessions.end()) return false;
      const bool mine = launch_of(known->second.client) >= op.launch;
      return mine || was_here(known->second, op.invoked_at, op.answered_at) ||
             known->second.away_at(op.invoked_at) < longest(limits::kAbsence);
    });
    const bool opened_before = op.invoked < step->applied || launch_began(op.launch) < step->at;
    if (concerned || opened_before) return std::nullopt;
    std::string away;
    for (const SessionId& id : sessions) {
      const auto known = records_.sessions.find(id);
      if (known == records_.sessions.end()) continue;
      const Duration since = known->second.away_at(op.answered_at);
      away += " client " + std::to_string(known->second.client) + " for " +
              std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) +
              " ms";
    }
    return Violation{"launches",
                     describe(op) + ": that broke for the launch before; away were" + away};
  }

  std::uint64_t launch_of(std::uint32_t client) const {
    const auto first = std::ranges::find(records_.ops, client, &Op::client);
    return first == records_.ops.end() ? 0 : first->launch;
  }
  TimePoint launch_began(std::uint64_t launch) const {
    const auto first = std::ranges::find(records_.ops, launch, &Op::launch);
    return first->invoked_at;
  }

  const Records& records_;
  const std::string& job_;
  std::map<SessionId, std::uint64_t> replaced_;  // by session: the order of its replacement
  std::map<std::string, Broken> broken_;         // by the text of the failure
  /// What the rows of sessions had of their time to return, and when they were written.
  std::map<SessionId, std::vector<std::pair<TimePoint, Duration>>> returns_;
};

}  // namespace

OptionalViolation judge_launches(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    if (auto bad = LaunchJudge(records, job).judge()) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
