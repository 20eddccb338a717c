// SPDX-License-Identifier: Apache-2.0
// What the oracles judge: what clients asked and were told, and what became durable of what the
// jobs did, each with its place in one total order of events.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/ops.h"
#include "store/engine.h"
#include "tests/history/op.h"

namespace c10dd::sim {

using history::describe;
using history::Op;

/// One step of a job that changed rows.
struct Step {
  Revision revision = 0;
  std::uint32_t client = 0;  ///< whose call it was; 0: time or a disconnect
  SessionId session;
  std::uint64_t sequence = 0;  ///< 0 likewise
  std::vector<Row> rows;
  bool keeps_answer = false;
  TimePoint at;
  std::uint64_t applied = 0;  ///< order
  std::uint64_t durable = 0;  ///< order

  /// It is what the call asked for: it changes keys, or keeps an answer. Else it only clears up.
  bool is_effect() const;
};

/// What is known of a session from outside.
struct SessionFacts {
  std::uint32_t client = 0;
  bool said_goodbye = false;
  bool ended = false;                                ///< the daemon said so
  bool replaced = false;                             ///< likewise, and another has its rank
  std::vector<std::pair<TimePoint, bool>> presence;  ///< connected or not, from when on

  void is_here(TimePoint now, bool here) { presence.emplace_back(now, here); }
  bool attached() const { return !presence.empty() && presence.back().second; }
  /// For how long it had been away at this moment.
  Duration away_at(TimePoint moment) const;
  /// The longest time it was away from one daemon.
  Duration longest_away(TimePoint now) const;
};

/// A member that a daemon has declared lost, with the signs of life that it had of it since it
/// began to serve the job, all in its own job time. What is absent did not happen.
struct Loss {
  std::string job;
  SessionId session;
  TimePoint at;
  std::string ending;              ///< as the daemon says
  Duration served{0};              ///< for how long it had served the job
  std::optional<Duration> silent;  ///< since the last frame
  std::optional<Duration> away;    ///< since the connection closed; it did not come back
};

class Records {
 public:
  std::vector<Op> ops;
  std::vector<Loss> losses;
  std::optional<RendezvousPolicy> crew;  ///< of the groups, if there are any
  std::uint64_t quiet = 0;               ///< order; long after the last fault and the last call
  std::set<std::uint32_t> dead_by_then;  ///< clients that were dead when it became quiet
  std::map<std::string, JobNumber> jobs;
  std::map<SessionId, SessionFacts> sessions;
  std::set<std::uint32_t> dead_clients;
  std::set<std::uint32_t> cut_off;  ///< clients that were alive when their job started again
  Duration session_expiry{0};
  unsigned takeovers = 0;
  bool small_history = false;  ///< the daemon keeps few changes for watches
  bool disk_was_short = false;
  bool drained = false;  ///< the run came to its end: sessions over, queues emptied
  std::map<std::string, Revision> rolled_back_to;
  std::map<std::string, unsigned> loads;  ///< how often a daemon began to serve the job
  std::map<std::string, std::vector<TimePoint>> loaded_at;  ///< and when

  /// A job did something under this epoch; nothing is durable yet.
  void did(JobNumber job, Epoch epoch, Step step) {
    doing_[{job, epoch}].push_back(std::move(step));
  }
  /// The newest batch was completed with these rows.
  void sealed(JobNumber job, Epoch epoch, std::span<const Row> rows) {
    auto& last = doing_[{job, epoch}].back().rows;
    last.insert(last.end(), rows.begin(), rows.end());
  }
  /// The engine has taken this batch.
  void taken(const store::JobBatch& batch, std::uint64_t order);

  /// The calls of each job, in the order in which they were made.
  std::map<std::string, history::Ops> calls() const;

  /// The durable steps of a job, by revision.
  const std::vector<Step>& log(JobNumber job) const;
  const std::vector<Step>& log(const std::string& job) const;

 private:
  std::map<std::pair<JobNumber, Epoch>, std::vector<Step>> doing_;
  std::map<JobNumber, std::vector<Step>> logs_;
};

}  // namespace c10dd::sim
