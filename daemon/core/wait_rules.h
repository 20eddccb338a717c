// SPDX-License-Identifier: Apache-2.0
// How blocked requests are answered: for each operation that can block, what it waits for, its
// answer when that is there, and its answer when its time is over.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/core/barriers.h"
#include "daemon/core/group/groups.h"
#include "daemon/core/history.h"
#include "daemon/core/key_space.h"
#include "daemon/core/missing.h"
#include "daemon/core/queues.h"
#include "daemon/core/step.h"

namespace c10dd::core {

/// What the answers are computed from. A time-out changes the last two: it breaks a barrier and
/// withdraws a join.
struct WaitTables {
  const KeySpace& keys;
  const Queues& queues;
  const History& history;
  const Sessions& sessions;
  Barriers& barriers;
  Groups& groups;
};

class WaitRules {
 public:
  using Waiter = Pending::Waiter;
  using Shortages = std::map<std::string, Failure>;  // by group

  /// Who asks, and when. `observed` is what the answer depends on.
  struct Look {
    const SessionId& session;
    TimePoint now;
    Revision revision;   ///< of the job
    Revision since = 0;  ///< nothing before it concerns a request that was blocked
    const Shortages* shortages = nullptr;  ///< of groups whose joins time out together
    Revision observed = 0;

    void observe(Revision seen) { observed = std::max(observed, seen); }
  };

  explicit WaitRules(const WaitTables& tables) : tables_(tables) {}

  // One overload per operation that can block. A request of another one is never blocked.

  /// The tokens that it waits for.
  std::vector<Bytes> tokens(const Get& get) const;
  std::vector<Bytes> tokens(const Wait& wait) const;
  std::vector<Bytes> tokens(const MultiGet& get) const;
  std::vector<Bytes> tokens(const Watch& watch) const;
  std::vector<Bytes> tokens(const QueuePop& pop) const;
  std::vector<Bytes> tokens(const Barrier& barrier) const;
  std::vector<Bytes> tokens(const Exchange& exchange) const;
  std::vector<Bytes> tokens(const Join& join) const;
  std::vector<Bytes> tokens(const WatchGroup& watch) const;

  /// The answer if what it waits for is there. A queue_pop is answered by QueueOps::serve().
  Maybe ready(const Get& get, Look& look) const;
  Maybe ready(const Wait& wait, Look& look) const;
  Maybe ready(const MultiGet& get, Look& look) const;
  Maybe ready(const Watch& watch, Look& look) const;
  Maybe ready(const Barrier& barrier, Look& look) const;
  Maybe ready(const Exchange& exchange, Look& look) const;
  Maybe ready(const Join& join, Look& look) const;
  Maybe ready(const WatchGroup& watch, Look& look) const;

  /// The answer when its time is over: who or what is missing.
  Reply overdue(const Waiter& waiter, const Get& get, Look& look) const;
  Reply overdue(const Waiter& waiter, const Wait& wait, Look& look) const;
  Reply overdue(const Waiter& waiter, const MultiGet& get, Look& look) const;
  Reply overdue(const Waiter& waiter, const Watch& watch, Look& look) const;
  Reply overdue(const Waiter& waiter, const QueuePop& pop, Look& look) const;
  Reply overdue(const Waiter& waiter, const Barrier& barrier, Look& look) const;
  Reply overdue(const Waiter& waiter, const Exchange& exchange, Look& look) const;
  Reply overdue(const Waiter& waiter, const Join& join, Look& look) const;
  Reply overdue(const Waiter& waiter, const WatchGroup& watch, Look& look) const;

  /// Times out what others depend on, and returns the answer: a barrier fails for all its ranks,
  /// also for those that come later; a join is withdrawn.
  Reply time_out(Step& step, const Waiter& waiter, const Barrier& barrier, Look& look);
  Reply time_out(Step& step, const Waiter& waiter, const Exchange& exchange, Look& look);
  Reply time_out(Step& step, const Waiter& waiter, const Join& join, Look& look);

  /// What is missing in each group that one of these waits to join.
  Shortages shortages(const std::vector<Waiter>& joins) const;

 private:
  bool is_there(const Bytes& key, bool or_queue) const;
  std::vector<Bytes> missing(const std::vector<Bytes>& keys, bool or_queue) const;
  Reply keys_overdue(const Waiter& waiter, const std::vector<Bytes>& keys, bool reads,
                     Look& look) const;
  Reply barrier_overdue(const Waiter& waiter, const BarrierKey& key, Look& look) const;
  Reply time_out_barrier(Step& step, const Waiter& waiter, const BarrierKey& key, Look& look);

  WaitTables tables_;
};

}  // namespace c10dd::core
