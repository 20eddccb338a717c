// SPDX-License-Identifier: Apache-2.0
// The ranks and processes to which the wait-fors of a job refer, each listed once, although it may
// have several sessions, and be known by its rank, a session or a process.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "daemon/core/group/groups.h"
#include "daemon/core/sessions/sessions.h"
#include "daemon/core/torch/launch_ranks.h"
#include "daemon/core/waiting/missing.h"
#include "protocol/wait_for.h"

namespace c10dd::core {

class KnownRanks {
 public:
  KnownRanks(const Sessions& sessions, const Groups& groups, const LaunchRanks& launch,
             TimePoint now, bool loaded)
      : sessions_(sessions), groups_(groups), launch_(launch), now_(now), loaded_(loaded) {}

  /// Returns the place of a session's process in facts(). A session that has ended is gone. `rank`
  /// is the rank of the process where nothing else tells it.
  std::size_t of_session(const SessionId& id, std::optional<Rank> rank = {});
  /// Returns the same. But a process that is lost has a place of its own, which each call makes:
  /// another process may have its rank now.
  std::size_t of_reporter(const SessionId& id, const Session& session, Rank rank);
  /// Returns the place of a rank of the job. It has never connected if nothing is known of it.
  std::size_t of_rank(Rank rank);
  std::size_t of_process(const LaunchRanks::Process& process);
  /// Adds something that is none of the above.
  std::size_t add(RankFacts facts);
  /// Sets RankFacts::blocked.
  void set_blocked(std::size_t place) { facts_[place].blocked = true; }
  /// Sets RankFacts::calls_more if one of the sessions of a place is noted so.
  void note_calls(std::size_t place, bool more) { facts_[place].calls_more |= more; }

  void reserve(std::size_t places) { facts_.reserve(places); }
  const std::vector<RankFacts>& facts() const { return facts_; }
  std::vector<RankFacts> take() { return std::move(facts_); }

 private:
  RankFacts facts_of(const SessionId& id, const Session& session) const;
  std::size_t put(RankFacts facts, const SessionId& id);

  const Sessions& sessions_;
  const Groups& groups_;
  const LaunchRanks& launch_;
  const TimePoint now_;
  const bool loaded_;  // see WaitSources::loaded
  std::vector<RankFacts> facts_;
  std::vector<std::size_t> by_rank_;  // place + 1; 0: not listed
  std::map<std::tuple<std::string, std::uint64_t, SessionId>, std::size_t> by_process_;
};

}  // namespace c10dd::core
