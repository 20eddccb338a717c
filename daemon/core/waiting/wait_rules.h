// SPDX-License-Identifier: Apache-2.0
// Decides how blocked requests are answered. For each operation that can block, gives the tokens
// that a request waits for, the reply when it can complete, and the reply when it times out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/group/groups.h"
#include "daemon/core/keys/history.h"
#include "daemon/core/keys/key_space.h"
#include "daemon/core/keys/queues.h"
#include "daemon/core/waiting/missing.h"
#include "daemon/core/waiting/step.h"

namespace c10dd::core {

/// The tables from which replies are computed. A time-out changes two of the tables: it breaks a
/// barrier in `barriers`, or withdraws a join from `groups`.
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

  /// The context of one reply.
  struct WaitContext {
    const SessionId& session;
    TimePoint now;
    Revision revision;  ///< the job's
    /// Of a request that was blocked: the revision of the step that has fired its last token; 0 for
    /// a request that was not. Such a watch ignores changes before this revision.
    Revision since = 0;
    const Shortages* shortages = nullptr;  ///< why groups have not formed; set only in a time-out
    const Diagnosis* diagnosis = nullptr;  ///< of the job; set only in a time-out
    Revision observed = 0;                 ///< newest revision that the reply depends on
    bool diagnosed = false;                ///< the reply has the sentence of `diagnosis`

    void observe(Revision seen) { observed = std::max(observed, seen); }
  };

  explicit WaitRules(const WaitTables& tables) : tables_(tables) {}

  // tokens(), ready(), overdue() and time_out() have one overload for each operation they handle.

  /// Returns the tokens that the request waits for.
  std::vector<Blob> tokens(const Get& get) const;
  std::vector<Blob> tokens(const Wait& wait) const;
  std::vector<Blob> tokens(const MultiGet& get) const;
  std::vector<Blob> tokens(const WaitCounter& wait) const;
  std::vector<Blob> tokens(const Watch& watch) const;
  std::vector<Blob> tokens(const QueuePop& pop) const;
  std::vector<Blob> tokens(const Barrier& barrier) const;
  std::vector<Blob> tokens(const Exchange& exchange) const;
  std::vector<Blob> tokens(const Join& join) const;
  std::vector<Blob> tokens(const WatchGroup& watch) const;

  /// Returns the reply if the request can complete now; otherwise returns nothing. There is no
  /// overload for queue_pop, which QueueOps::serve() answers.
  OptionalReply ready(const Get& get, WaitContext& look) const;
  OptionalReply ready(const Wait& wait, WaitContext& look) const;
  OptionalReply ready(const MultiGet& get, WaitContext& look) const;
  OptionalReply ready(const WaitCounter& wait, WaitContext& look) const;
  OptionalReply ready(const Watch& watch, WaitContext& look) const;
  OptionalReply ready(const Barrier& barrier, WaitContext& look) const;
  OptionalReply ready(const Exchange& exchange, WaitContext& look) const;
  OptionalReply ready(const Join& join, WaitContext& look) const;
  OptionalReply ready(const WatchGroup& watch, WaitContext& look) const;

  /// Returns the reply to a request that has timed out. If the reply is a failure, it names what is
  /// missing.
  Reply overdue(const Waiter& waiter, const Get& get, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const Wait& wait, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const MultiGet& get, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const WaitCounter& wait, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const Watch& watch, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const QueuePop& pop, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const Barrier& barrier, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const Exchange& exchange, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const Join& join, WaitContext& look) const;
  Reply overdue(const Waiter& waiter, const WatchGroup& watch, WaitContext& look) const;

  /// Times out a request on which other requests depend. Returns the reply to the request. A
  /// barrier fails for all its ranks, also for ranks that arrive later. A join is withdrawn.
  Reply time_out(Step& step, const Waiter& waiter, const Barrier& barrier, WaitContext& look);
  Reply time_out(Step& step, const Waiter& waiter, const Exchange& exchange, WaitContext& look);
  Reply time_out(Step& step, const Waiter& waiter, const Join& join, WaitContext& look);

  /// Returns whether the key exists or, if `or_queue` is true, whether a queue named `key` has a
  /// free item.
  bool is_there(std::string_view key, bool or_queue) const;

  /// Returns, by group, why the groups that these waiters want to join have not formed.
  Shortages shortages(const std::vector<Waiter>& joins) const;

 private:
  std::vector<Bytes> missing(const std::vector<Bytes>& keys, bool or_queue) const;
  std::vector<Blob> tokens_of_missing(const std::vector<Bytes>& keys, bool or_queue) const;
  Reply keys_overdue(const Waiter& waiter, const std::vector<Bytes>& keys, bool reads,
                     WaitContext& look) const;
  Reply barrier_overdue(const Waiter& waiter, const BarrierKey& key, WaitContext& look) const;
  Reply time_out_barrier(Step& step, const Waiter& waiter, const BarrierKey& key,
                         WaitContext& look);

  WaitTables tables_;
};

}  // namespace c10dd::core
