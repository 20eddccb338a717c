// SPDX-License-Identifier: Apache-2.0
// The state of one training job: keys, queues, watches, sessions, barriers, exchanges and groups.
// Pure: no clock, no I/O, no threads. Equal calls in equal order give equal effects, so that every
// execution can be replayed. Order of calls: restore() for each row, resume(), then apply(),
// disconnect() and tick() in any order.
#pragma once

#include <optional>

#include "daemon/core/collective_ops.h"
#include "daemon/core/group_ops.h"
#include "daemon/core/transactions.h"

namespace c10dd::core {

struct JobStats {
  std::size_t keys = 0;
  std::size_t bytes = 0;
  std::size_t queue_items = 0;
  std::size_t queue_bytes = 0;
  std::size_t history_bytes = 0;
  std::size_t waiters = 0;
  std::size_t barriers_pending = 0;
  std::size_t sessions = 0;         ///< connected
  std::size_t sessions_known = 0;   ///< connected, or may come back
  std::size_t members = 0;          ///< of the newest generations; still in their groups
  std::size_t members_missing = 0;  ///< of the newest generations; lost, or have left
};

class Job {
 public:
  /// `start` holds the incarnation, epoch and revision that the job is loaded with.
  Job(JobNumber number, Stamp start, const Quotas& quotas = {});
  Job(const Job&) = delete;  // the handlers hold references to other members
  Job& operator=(const Job&) = delete;

  /// Restores one stored row. Fails with malformed and the kind of the row if it is damaged.
  Result<void> restore(const Row& row);
  /// Finishes a restore after its last row. Every time-out and grace starts in full at `now`. Fails
  /// with malformed if the rows do not fit together.
  Result<void> resume(TimePoint now);

  /// Applies a request. `no_room` is set if the request must not let the state grow: its reply is
  /// then this failure and nothing changes. A request that was applied before still gets its
  /// reply.
  Effects apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
                const Failure* no_room = nullptr);

  /// Notes a heartbeat of a connection (Origin::connection) for all its sessions in this job.
  void heard(std::uint64_t connection, TimePoint now) { sessions_.heard(connection, now); }

  /// Notes that a session has lost its connection. The session stays.
  Effects disconnect(const SessionId& session, TimePoint now);

  /// Fires every deadline <= now.
  Effects tick(TimePoint now);

  /// Completes a batch: adds the rows of the replies that were kept since the last call. Must be
  /// called with the rows of all steps since then, before they go to the engine.
  void seal(std::vector<Row>& rows) { sessions_.seal(rows); }
  std::optional<TimePoint> next_deadline() const;

  /// Notes that all changes up to this revision are durable.
  void durable(Revision revision) { keys_.durable(revision); }

  Revision revision() const { return revision_; }
  JobStats stats() const;
  /// Returns whether the job has no session, key, queued item or group, so that its rows may be
  /// erased.
  bool empty() const;
  /// Recounts all sums and second indexes, and checks that ended sessions have left nothing behind.
  Finding audit() const;

 private:
  // the parts of a step, in this order
  Step begin(const Origin& from, const CallId& call, TimePoint now, Effects& out);
  void acknowledge(Step& step, Session& session);
  Maybe admit(Step& step, const OpInfo& op);
  Maybe replay(Step& step, const OpInfo& op);
  Maybe dispatch(Step& step, const Request& request);
  void settle(Step& step);
  void record(Step& step, const OpInfo& op, const Maybe& done);
  void release(Step& step);

  Revision revision_;

  // The state of the job. All but the last two are stored as rows.
  KeySpace keys_;
  Lifetimes lifetimes_;
  History history_;
  Queues queues_;
  Sessions sessions_;
  Barriers barriers_;
  Groups groups_;
  CollectiveLedger ledger_;
  CallBoard call_board_;

  // The handlers of requests. Each uses only those above it, so the order matters.
  Waits waits_;
  KeyOps key_ops_{keys_, lifetimes_, history_, queues_, waits_};
  QueueOps queue_ops_{queues_, sessions_, waits_};
  Transactions transactions_{keys_, queues_, key_ops_, queue_ops_};
  SessionOps session_ops_;
  BarrierOps barrier_ops_{barriers_, sessions_, groups_, waits_, session_ops_};
  GroupOps group_ops_{groups_, barrier_ops_, waits_};
  CollectiveOps collective_ops_{ledger_, call_board_};
};

}  // namespace c10dd::core
