// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/known_ranks.h"

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

using State = RankFacts::State;

State state_of(const LaunchRanks::Process& process) {
  if (!process.has_left()) return State::live;
  return process.ending == Ending::expired ? State::gone : State::left;
}

Duration silence() {
  return planted(Planted::beating_blamed) ? Duration(limits::kHeartbeatInterval) / 2 : kSilent;
}

}  // namespace

RankFacts KnownRanks::facts_of(const SessionId& id, const Session& session) const {
  RankFacts facts{.host = session.host, .pid = session.pid};
  if (session.rank >= 0) facts.rank = static_cast<Rank>(session.rank);
  if (const LaunchRanks::Process* process = launch_.of_session(id); process && !facts.rank) {
    facts.rank = process->rank;
  }
  const GroupMember* const member = groups_.member(id);
  if (member != nullptr) {
    if (!facts.rank && member->rank >= 0) facts.rank = static_cast<Rank>(member->rank);
    if (!member->phase.empty()) {
      facts.doing = format("in phase {} of step {}", member->phase, member->at_step);
    }
    if (member->stalled) facts.state = State::slow;
  }
  if (!session.connected) {
    // A connection that was reset returns at once.
    if (now_ - session.last_seen >= limits::kReconnectGrace) facts.state = State::closed;
  } else if (!sessions_.answers(session)) {
    facts.state = State::no_answer;
  } else if (!session.fleeting && now_ - sessions_.last_heard(session) > silence()) {
    facts.state = State::silent;
    const Duration silent = now_ - sessions_.last_heard(session);
    facts.may_return = silent < groups_.ttl_of(id) && !planted(Planted::pause_is_final);
  }
  if (facts.is_lost()) facts.doing.clear();
  return facts;
}

std::size_t KnownRanks::put(RankFacts facts, const SessionId& id) {
  if (facts.rank && *facts.rank < limits::kWorldSize) {
    if (by_rank_.size() <= *facts.rank) by_rank_.resize(*facts.rank + 1);
    std::size_t& place = by_rank_[*facts.rank];
    if (place == 0) {
      facts_.push_back(std::move(facts));
      place = facts_.size();
      return place - 1;
    }
    RankFacts& known = facts_[place - 1];
    // Groups of one job may have members of their own, and so the same ranks.
    const bool another = !known.is_lost() && !facts.is_lost() && known.pid != 0 && facts.pid != 0 &&
                         known.pid != facts.pid;
    if (!another) {
      if (known.is_lost() && !facts.is_lost()) known = std::move(facts);  // the newer process
      return place - 1;
    }
  } else {
    facts.rank.reset();
  }
  const auto [known, added] = by_process_.try_emplace(
      {facts.host, facts.pid, facts.pid == 0 ? id : SessionId{}}, facts_.size());
  if (added) {
    facts_.push_back(std::move(facts));
  } else if (facts_[known->second].is_lost() && !facts.is_lost()) {
    facts_[known->second] = std::move(facts);
  }
  return known->second;
}

std::size_t KnownRanks::of_session(const SessionId& id, std::optional<Rank> rank) {
  const Session* const session = sessions_.find(id);
  RankFacts facts{.state = State::gone};
  if (session != nullptr) facts = facts_of(id, *session);
  if (!facts.rank) facts.rank = rank;
  return put(std::move(facts), id);
}

std::size_t KnownRanks::of_reporter(const SessionId& id, const Session& session, Rank rank) {
  RankFacts facts = facts_of(id, session);
  if (!facts.rank) facts.rank = rank;
  return facts.is_lost() ? add(std::move(facts)) : put(std::move(facts), id);
}

std::size_t KnownRanks::of_rank(Rank rank) {
  if (rank < by_rank_.size() && by_rank_[rank] != 0) return by_rank_[rank] - 1;
  if (const SessionId* const id = sessions_.id_of_rank(rank)) return of_session(*id);
  if (const LaunchRanks::Process* const process = launch_.of_rank(rank)) {
    return of_process(*process);
  }
  RankFacts facts{.rank = rank, .state = loaded_ ? State::not_back : State::never_connected};
  if (const Departed* const departed = sessions_.departed(rank)) {
    facts.host = departed->host;
    facts.pid = departed->pid;
    facts.state = departed->expired ? State::gone : State::left;
    if (departed->expired) facts.doing = "the session expired without a connection";
  }
  return put(std::move(facts), {});
}

std::size_t KnownRanks::of_process(const LaunchRanks::Process& process) {
  if (!process.has_left()) return of_session(*process.sessions.begin());
  const auto rank = process.rank;
  return put({.rank = rank, .host = process.host, .pid = process.pid, .state = state_of(process)},
             {});
}

std::size_t KnownRanks::add(RankFacts facts) {
  facts_.push_back(std::move(facts));
  return facts_.size() - 1;
}

}  // namespace c10dd::core
