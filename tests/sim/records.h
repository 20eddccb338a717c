// SPDX-License-Identifier: Apache-2.0
// What the oracles judge: the calls of clients with their replies, and the steps of jobs that
// became durable, each with its number in one total order of events ("order" below).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/diagnosis.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "store/engine.h"
#include "tests/history/op.h"

namespace c10dd::sim {

using history::describe;
using history::Op;

/// Returns whether a client has made this time-out itself, because no daemon served it.
inline bool is_of_client(const std::string& detail) {
  return detail.find("the daemon at") != std::string::npos ||
         detail.find("the daemons at") != std::string::npos;
}

class AccessStory;

/// One step of a job that changed rows.
struct Step {
  Revision revision = 0;
  std::uint32_t client = 0;  ///< whose call it was; 0: time or a disconnect
  SessionId session;
  std::uint64_t sequence = 0;  ///< 0: time or a disconnect
  std::vector<Row> rows;
  bool keeps_answer = false;
  TimePoint at;
  std::uint64_t applied = 0;  ///< order
  std::uint64_t durable = 0;  ///< order

  /// Returns true if the step is the effect of its call: it changes keys, or keeps a reply. Other
  /// steps only clean up.
  bool is_effect() const;
};

/// What a daemon has said of a job, from `at` on. Diagnosis::Kind::none: that nothing is wrong.
struct SeenDiagnosis {
  std::string job;
  TimePoint at;
  Diagnosis diagnosis;
};

/// What is known about a session from outside the daemon.
struct SessionFacts {
  std::uint32_t client = 0;
  bool said_goodbye = false;
  TimePoint confirmed;    ///< from when on the client counts its ttl, see Core::last_confirmed()
  bool ended = false;     ///< the daemon has reported its end
  bool replaced = false;  ///< ended, and another session has its rank
  std::vector<std::pair<TimePoint, bool>> presence;  ///< connected or not, from when on

  void is_here(TimePoint now, bool here) { presence.emplace_back(now, here); }
  bool attached() const { return !presence.empty() && presence.back().second; }
  /// Returns for how long the session had been away at this moment.
  Duration away_at(TimePoint moment) const;
  /// Returns the longest time that the session was away from one daemon.
  Duration longest_away(TimePoint now) const;
};

/// A member that a daemon has declared lost, with its signs of life since the daemon began to serve
/// the job, in the daemon's job time. An empty member: this did not happen.
struct Loss {
  std::string job;
  SessionId session;
  TimePoint at;
  std::string ending;              ///< the reason that the daemon gives
  Duration served{0};              ///< for how long the daemon had served the job
  std::optional<Duration> silent;  ///< since the last frame
  std::optional<Duration> away;    ///< since the connection closed; it did not come back
  /// For how long its process has counted its ttl, if the process lives.
  std::optional<Duration> unconfirmed = {};
  /// What its rows had of its time to return when the job was loaded; 0: nothing, it had all.
  Duration time_left{0};
};

class Records {
 public:
  std::vector<Op> ops;
  std::vector<Loss> losses;
  std::vector<SeenDiagnosis> diagnoses;
  std::optional<RendezvousPolicy> group_policy;  ///< of the groups, if there are any
  std::uint64_t quiet = 0;  ///< order of a moment long after the last fault and the last call
  std::set<std::uint32_t> dead_by_then;  ///< clients that were dead when it became quiet
  std::map<std::string, JobNumber> jobs;
  std::map<SessionId, SessionFacts> sessions;
  std::set<std::uint32_t> dead_clients;
  std::set<std::uint32_t> cut_off;  ///< clients that were alive when their job started again
  Duration session_expiry{0};
  unsigned takeovers = 0;
  /// Until when a daemon, by number, may miss heartbeats: it was paused, or a command was lost.
  std::map<std::uint64_t, TimePoint> trouble;
  std::shared_ptr<AccessStory> access;  ///< null: the daemons ask nobody who he is
  bool fleet = false;                   ///< several daemons share the engine
  bool state_lost = false;              ///< the server of the fleet has lost durable changes
  bool all_stopped = false;             ///< all daemons have noticed that: none of them may answer
  /// Returns the least time that members have after their job was loaded.
  Duration restart_grace() const {
    return fleet ? Duration(limits::kTakeoverGrace) : Duration(limits::kRestartGrace);
  }
  std::map<std::pair<JobNumber, Epoch>, std::uint64_t> owners;  ///< which daemon served a claim
  bool small_history = false;  ///< the daemon keeps few changes for watches
  bool disk_was_short = false;
  bool drained = false;  ///< the run ended normally: sessions ended, queues emptied
  std::map<std::string, Revision> rolled_back_to;
  std::map<std::string, unsigned> loads;  ///< how often a daemon began to serve the job
  std::map<std::string, std::vector<TimePoint>> loaded_at;  ///< when it began
  std::vector<TimePoint> deaths;                            ///< of daemons

  /// Records a step of a job under this epoch, not yet durable.
  void did(JobNumber job, Epoch epoch, Step step) {
    doing_[{job, epoch}].push_back(std::move(step));
  }
  /// Adds the rows that complete the newest batch.
  void reply_rows_appended(JobNumber job, Epoch epoch, std::span<const Row> rows) {
    auto& last = doing_[{job, epoch}].back().rows;
    last.insert(last.end(), rows.begin(), rows.end());
  }
  /// Records that the engine has committed this batch.
  void taken(const store::JobBatch& batch, std::uint64_t order);

  /// The calls of each job, in the order in which they were made.
  std::map<std::string, history::Ops> calls() const;

  /// Returns the durable steps of a job, by revision.
  const std::vector<Step>& log(JobNumber job) const;
  const std::vector<Step>& log(const std::string& job) const;

 private:
  std::map<std::pair<JobNumber, Epoch>, std::vector<Step>> doing_;
  std::map<JobNumber, std::vector<Step>> logs_;
};

/// Returns whether the ranges have the rank.
bool names(const std::vector<RankRange>& ranges, Rank rank);

}  // namespace c10dd::sim
