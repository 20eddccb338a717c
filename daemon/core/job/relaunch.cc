// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/relaunch.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/waiting/missing.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

/// Adds one session to a turnout. If the session is present, counts it. If the session is away,
/// makes it `absent`, unless the previous `absent` counts as gone at the same time or later.
void count(Turnout& turnout, Rank rank, const SessionId& id, const Sessions& sessions,
           TimePoint now) {
  const Presence presence = sessions.presence(id, now);
  if (presence == Presence::present) {
    if (++turnout.present <= limits::kMissingNamed) turnout.ranks.push_back(rank);
    if (!turnout.first) turnout.first = id;
  } else if (presence == Presence::away) {
    const TimePoint gone_at = sessions.gone_at(*sessions.find(id));
    if (turnout.absent && turnout.gone_at >= gone_at) return;
    turnout.absent = id;
    turnout.gone_at = gone_at;
  }
}

}  // namespace

// ---- the holder of a rank ----------------------------------------------------------------------

Relaunch::Way Relaunch::make_way(Step& step, const Newcomer& newcomer, const Arrival& arrival) {
  const auto& [key, rank, awaits_earlier] = newcomer;
  const BarrierState* state = barriers_.find(key);
  if (state == nullptr) return std::nullopt;
  if (state->broken) {
    const bool concerned = step.session->since < state->revision;
    if (concerned || planted(Planted::old_failure_repeated)) return std::nullopt;
    return leave_behind(step, newcomer, {});
  }
  if (Result<void> same = barriers_.check_same(key, rank, arrival, sessions_); !same) {
    step.observe(state->revision);
    return leave_behind(step, newcomer, same);
  }
  const SessionId* holder = state->holder(rank);
  if (holder == nullptr || *holder == arrival.session) return std::nullopt;
  step.observe(state->revision);
  return take_rank(step, newcomer, *holder);
}

/// Handles an arrival at a barrier that belongs to an earlier launch. The caller does not belong to
/// that launch. The result depends on the sessions of the launch:
///  - At least one session is present: if the caller awaits the earlier launch, the barrier is
///    complete, and the caller's rank has no present holder, returns such a session, for which the
///    caller must wait. Otherwise returns the error in `good`. If `good` has no error, returns
///    nullopt, and the caller gets the outcome of the barrier.
///  - None is present, but some are away: returns a session for which the caller must wait.
///  - All count as gone: first calls take_rank(), which may refuse the caller or make it wait. If
///    take_rank() does neither, drops the barrier and ends the sessions, because a session that
///    came back would be counted with the next launch.
Relaunch::Way Relaunch::leave_behind(Step& step, const Newcomer& newcomer,
                                     const Result<void>& good) {
  const auto& [key, rank, awaits_earlier] = newcomer;
  const BarrierState& state = *barriers_.find(key);
  const Turnout who =
      state.complete ? turnout(state.cohort, step.now) : turnout(state.arrived(), step.now);
  const SessionId* holder = state.holder(rank);
  const bool held = holder != nullptr && sessions_.presence(*holder, step.now) == Presence::present;
  if (who.present > 0 && awaits_earlier && state.complete && !held) return who.first;
  if (who.present > 0 && !good) return good.error();
  if (who.present > 0) return std::nullopt;
  if (who.absent) return who.absent;
  const auto arrived = state.arrived();
  if (!arrived.empty()) {
    Way way = take_rank(step, newcomer, holder == nullptr ? arrived.front().second : *holder);
    if (!way || *way) return way;
  }
  if (barriers_.find(key) != nullptr) barriers_.drop(key, step.out.rows);
  for (const auto& [at, id] : arrived) {
    if (sessions_.find(id) != nullptr) session_ops_.end(step, id, Ending::replaced);
  }
  return std::nullopt;
}

/// Handles an arrival for a rank that another session holds.
Relaunch::Way Relaunch::take_rank(Step& step, const Newcomer& newcomer, SessionId holder) {
  const auto& [key, rank, awaits_earlier] = newcomer;
  const Presence presence = sessions_.presence(holder, step.now);
  if (presence == Presence::present) {
    return failure(
        Code::rank_taken,
        "{}: rank {} has already arrived from {}, which is still connected; end that process, or "
        "give each process its own rank, each process group its own name, and each launch its own "
        "run ID (C10DD_RUN)",
        describe(key), rank, process_of(sessions_.find(holder)));
  }
  if (presence == Presence::away) return holder;
  std::vector<CohortRef> cohorts;
  if (const Participation::Participant* participant = barriers_.participation().find(holder)) {
    for (const auto& [cohort, ranks] : participant->cohorts) {
      if (!cohort->broken && cohort->in_series(key)) cohorts.push_back(cohort);
    }
  } else if (const CohortRef& cohort = barriers_.find(key)->cohort; cohort && !cohort->broken) {
    cohorts.push_back(cohort);  // the holder has ended, but other sessions may be present
  }
  const Turnout* last = nullptr;
  for (const CohortRef& cohort : cohorts) {
    const Turnout& who = turnout(cohort, step.now);
    if (who.present > 0 && awaits_earlier) return who.first;
    if (who.present > 0) return restarted_alone(step, key, rank, holder, cohorts);
    if (who.absent && (last == nullptr || last->gone_at < who.gone_at)) last = &who;
  }
  if (last != nullptr) return last->absent;
  replace(step, key, rank, holder, cohorts);
  return std::nullopt;
}

Turnout Relaunch::turnout(const std::vector<std::pair<Rank, SessionId>>& all, TimePoint now) const {
  Turnout turnout;
  for (const auto& [rank, id] : all) count(turnout, rank, id, sessions_, now);
  return turnout;
}

/// Called for every rank of a new launch. Therefore the cohort keeps the turnout. The turnout is
/// computed again only after a session has connected, ended or lost its connection.
const Turnout& Relaunch::turnout(const CohortRef& cohort, TimePoint now) const {
  Turnout& turnout = cohort->turnout;
  if (cohort->turnout_at != barriers_.presence_changes()) {
    turnout = {};
    for (Rank rank = 0; rank < cohort->sessions.size(); ++rank) {
      if (cohort->sessions[rank] != SessionId{}) {
        count(turnout, rank, cohort->sessions[rank], sessions_, now);
      }
    }
    cohort->turnout_at = barriers_.presence_changes();
  }
  if (turnout.absent && turnout.gone_at <= now) turnout.absent.reset();
  return turnout;
}

// ---- the end of the earlier launch -------------------------------------------------------------

/// Handles a rank that was restarted alone. The other ranks of the launch will not come back to the
/// barrier `key`, and the new process cannot reach the barrier at which the other ranks wait.
/// Therefore breaks the barriers of this series at which ranks of that launch wait. Returns the
/// failure.
Failure Relaunch::restarted_alone(Step& step, const BarrierKey& key, Rank rank,
                                  const SessionId& holder, const std::vector<CohortRef>& cohorts) {
  std::vector<Rank> others;
  for (const CohortRef& cohort : cohorts) {
    const Turnout& who = turnout(cohort, step.now);
    others.insert(others.end(), who.ranks.begin(), who.ranks.end());
  }
  std::ranges::sort(others);
  others.erase(std::unique(others.begin(), others.end()), others.end());
  BarrierKey theirs = key;
  theirs.sequence = barriers_.newest_sequence(key);
  Failure reason =
      failure(Code::aborted,
              "{}: rank {} restarted alone while ranks {} of the same launch are still connected "
              "at sequence {}; restart all ranks, or join a group (rendezvous), which can replace "
              "single ranks",
              describe(key), rank, fold(others), theirs.sequence);
  const Session* session = sessions_.find(holder);
  MissingRank missing;
  missing.rank = rank;
  missing.cause = MissingRank::Cause::dead;
  missing.doing = "it restarted";
  if (session != nullptr) {
    missing.host = session->host;
    missing.pid = session->pid;
    missing.silent_for = step.now - sessions_.last_heard(*session);
  }
  reason.missing.push_back(std::move(missing));
  step.out.events.push_back(RankContested{"rank_restarted_alone", reason.detail});
  const auto of_theirs = [&](const SessionId& id) {
    const Participation::Participant* participant = barriers_.participation().find(id);
    return participant != nullptr &&
           std::ranges::any_of(participant->cohorts, [&](const auto& one) {
             return std::ranges::find(cohorts, one.first) != cohorts.end();
           });
  };
  for (const BarrierKey& unfinished : barriers_.unfinished_like(key)) {
    const auto& arrivals = barriers_.find(unfinished)->arrivals;
    const bool waited = std::ranges::any_of(
        arrivals, [&](const auto& entry) { return of_theirs(entry.second.session); });
    if (!waited) continue;
    barriers_.fail(unfinished, reason, step.next, step.out.rows);
    step.signal(token_of(unfinished));
  }
  if (!step.out.rows.empty()) step.observe(step.next);
  return reason;
}

/// Ends the sessions of an earlier launch, none of which is connected. In the same batch, drops the
/// launch's outcomes in the series of `key`.
void Relaunch::replace(Step& step, const BarrierKey& key, Rank rank, const SessionId& holder,
                       std::vector<CohortRef> cohorts) {
  std::vector<SessionId> ended{holder};
  for (const CohortRef& cohort : cohorts) {
    ended.insert(ended.end(), cohort->sessions.begin(), cohort->sessions.end());
  }
  std::ranges::sort(ended);
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  std::erase_if(ended, [&](const SessionId& id) { return sessions_.find(id) == nullptr; });
  for (const SessionId& id : ended) {  // the new launch must not get the failures of the old one
    const Participation::Participant* participant = barriers_.participation().find(id);
    if (participant == nullptr) continue;
    for (const auto& [cohort, ranks] : participant->cohorts) {
      if (!cohort->broken || !cohort->in_series(key)) continue;
      const Turnout& who = turnout(cohort, step.now);
      if (who.present == 0 && !who.absent) cohorts.push_back(cohort);
    }
  }
  for (const CohortRef& cohort : cohorts) {
    const std::set<BarrierKey> outcomes = cohort->outcomes;
    for (const BarrierKey& outcome : outcomes) {
      if (outcome.same_series(key)) barriers_.drop(outcome, step.out.rows);
    }
  }
  step.out.events.push_back(RankContested{
      "launch_replaced",
      format("{}: rank {} was held by {}, which is gone; {} sessions of its launch have ended",
             describe(key), rank, process_of(sessions_.find(holder)), ended.size())});
  for (const SessionId& id : ended) session_ops_.end(step, id, Ending::replaced);
}

}  // namespace c10dd::core
