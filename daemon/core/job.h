// SPDX-License-Identifier: Apache-2.0
// Everything one training job coordinates through: keys, queues, watches, barriers, exchanges,
// sessions.
// Pure: no clock, no I/O, no threads. Equal calls in equal order give equal effects, so any run
// can be replayed. Life: restore() each row, resume(), then apply/disconnect/tick in any order.
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
  std::size_t sessions_known = 0;   ///< also those that may come back
  std::size_t members = 0;          ///< of newest generations, here
  std::size_t members_missing = 0;  ///< of them, lost or left
};

class Job {
 public:
  /// start: incarnation, epoch and revision that the job is loaded with.
  Job(JobNumber number, Stamp start, const Quotas& quotas = {});
  Job(const Job&) = delete;  // its handlers refer to what it holds
  Job& operator=(const Job&) = delete;

  /// Takes up one row of the last run; malformed names the kind of a damaged one.
  Result<void> restore(const Row& row);
  /// After the last row: every time-out and grace starts in full at `now`.
  Result<void> resume(TimePoint now);

  /// no_room: why the request may not let the state grow, if it may not. One that was applied
  /// before gets its first answer all the same; else this is the answer, and nothing changes.
  Effects apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
                const Failure* no_room = nullptr);

  /// A heartbeat of a connection (Origin::connection), on behalf of all its sessions here.
  void heard(std::uint64_t connection, TimePoint now) { sessions_.heard(connection, now); }

  /// The connection of a session went. The session stays.
  Effects disconnect(const SessionId& session, TimePoint now);

  /// Fires every deadline <= now.
  Effects tick(TimePoint now);

  /// Completes a batch: adds the rows of the replies that were kept since the last call. To be
  /// called with the rows of all steps since then, before they are handed on.
  void seal(std::vector<Row>& rows) { sessions_.seal(rows); }
  std::optional<TimePoint> next_deadline() const;

  /// Changes up to this revision are on disk.
  void durable(Revision revision) { keys_.durable(revision); }

  Revision revision() const { return revision_; }
  JobStats stats() const;
  /// It has no session, key, queued item or group: nothing that anybody could ask for again.
  bool empty() const;
  /// Recounts all sums and second indexes, and looks for what ended sessions have left behind.
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

  // what the job holds; all but the last two have rows
  KeySpace keys_;
  Lifetimes lifetimes_;
  History history_;
  Queues queues_;
  Sessions sessions_;
  Barriers barriers_;
  Groups groups_;
  CollectiveLedger ledger_;
  CallBoard call_board_;

  // who answers requests: each uses those before it
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
