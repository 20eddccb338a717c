// SPDX-License-Identifier: Apache-2.0
// The state of one training job: keys, queues, watches, sessions, barriers, exchanges and groups.
// Pure: no clock, no I/O, no threads. Equal calls in equal order give equal effects, so that every
// execution can be replayed. Order of calls: restore() for each row, resume(), then apply(),
// disconnect() and tick() in any order.
#pragma once

#include <optional>
#include <vector>

#include "daemon/core/job/collective_ops.h"
#include "daemon/core/job/group_ops.h"
#include "daemon/core/job/job_stats.h"
#include "daemon/core/job/transactions.h"
#include "daemon/core/reports/diagnoses.h"
#include "daemon/core/reports/job_view.h"
#include "protocol/epochs.h"

namespace c10dd::core {

class Job {
 public:
  /// `start` holds the incarnation, epoch and revision with which the job is loaded. `starts` says
  /// where earlier epochs began, as far as that is known, and this one; empty: only this one.
  /// `account` pays for what is restored; null: nobody.
  Job(JobNumber number, Stamp start, const Quotas& quotas = {}, std::vector<EpochStart> starts = {},
      AccountRef account = nullptr);
  Job(const Job&) = delete;  // the handlers refer to members of this object
  Job& operator=(const Job&) = delete;

  /// Restores one stored row. If the row is damaged, fails with `malformed` and names the kind of
  /// row.
  Result<void> restore(const Row& row);
  /// Finishes the restore after the last row. All time-outs and grace periods start again at `now`.
  /// Fails with `malformed` if the rows contradict each other.
  Result<void> resume(TimePoint now);

  /// Applies a request. If the allowance has `no_room`, the state must not grow: the reply is
  /// `*no_room`, and the request changes nothing. Two kinds of requests are not refused even then:
  /// a request that was applied before, and an exchange that adds no data. A request for which more
  /// than `left` bytes would have to be held is refused. Adds the effects to `out`, which must be
  /// empty.
  void apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
             const Allowance& allowance, Effects& out);
  Effects apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
                const Allowance& allowance = {}) {
    Effects out;
    apply(from, call, request, now, allowance, out);
    return out;
  }

  /// Notes a heartbeat for all sessions of this job on the connection (see Origin::connection).
  void heard(std::uint64_t connection, TimePoint now) { sessions_.heard(connection, now); }
  /// Notes whether the host of the connection's peer answers. Writes no rows.
  void answers(std::uint64_t connection, bool answers, TimePoint now) {
    sessions_.answers(connection, answers);
    diagnoses_.wake(now);
  }

  /// Notes that a session has lost its connection. The session itself stays open.
  Effects disconnect(const SessionId& session, TimePoint now);

  /// Fires every deadline <= now. Answers the watchers of a group's status last, after the requests
  /// that are due have timed out, so that each is notified once, of all changes of the tick.
  Effects tick(TimePoint now);

  /// Appends to `rows` the rows of the replies that were stored since the last call. `rows` must
  /// hold the rows of all steps since the last call, and must be handed to the engine only after
  /// this call.
  void append_reply_rows(Rows& rows) { sessions_.append_reply_rows(rows); }
  std::optional<TimePoint> next_deadline() const;

  /// Notes that all changes up to this revision are durable.
  void durable(Revision revision) { keys_.durable(revision); }

  Revision revision() const { return revision_; }
  JobStats stats() const;
  /// For status pages: who waits for what.
  JobView view(TimePoint now) const { return core::view(wait_sources(now)); }
  /// Returns why the job does not go on, as it was found last. See Diagnoses.
  const Diagnosis& diagnosis() const { return diagnoses_.current(); }
  const std::optional<Diagnoses::Ended>& last_stuck() const { return diagnoses_.last_stuck(); }
  /// Returns whether the job has no key or queued item, no session but those that may only read,
  /// and no group whose members have not all finished or left, so that its rows may be erased.
  bool empty() const;
  /// Returns the bytes that are charged for what the job holds.
  std::size_t charged() const;
  /// Returns whether the session has been opened and has not ended.
  bool knows(const SessionId& session) const { return sessions_.find(session) != nullptr; }
  /// See Sessions::check_owner().
  Result<void> check_owner(const Origin& from) const { return sessions_.check_owner(from); }
  /// Recounts all sums and secondary indexes, and checks that ended sessions have left no data
  /// behind.
  AuditResult audit() const;

 private:
  // The parts of a step, in the order in which they run.
  Step begin(const Origin& from, const CallId& call, const Allowance& allowance, TimePoint now,
             Effects& out);
  void note_callers(Session& session, const SessionId& id, std::uint64_t sequence,
                    const OpInfo& op) const;
  void acknowledge(Step& step, Session& session);
  OptionalReply admit(Step& step, const OpInfo& op);
  OptionalReply replay(Step& step, const OpInfo& op);
  OptionalReply dispatch(Step& step, const Request& request);
  bool is_quiet(const Step& step) const;
  void settle(Step& step);
  void record(Step& step, const OpInfo& op, const OptionalReply& done);
  void release(Step& step);
  WaitSources wait_sources(TimePoint now) const {
    return {waits_.pending(), keys_,  launch_, {sessions_, barriers_, groups_, now},
            activity_,        loaded_};
  }

  Revision revision_;
  bool loaded_ = false;  // from rows
  AccountRef restored_;  // pays for what is restored

  // The state of the job. All parts are stored as rows, except reservations_, launch_, ledger_,
  // activity_ and diagnoses_.
  KeySpace keys_;
  Lifetimes lifetimes_;
  History history_;
  Queues queues_;
  Sessions sessions_;
  Reservations reservations_{queues_};
  LaunchRanks launch_;
  Barriers barriers_;
  Groups groups_;
  CollectiveLedger ledger_;
  CollectiveActivity activity_{sessions_};
  Diagnoses diagnoses_;

  // The handlers of requests. Each handler uses only handlers above it, so their order matters.
  Waits waits_;
  KeyOps key_ops_{keys_, lifetimes_, history_, queues_, reservations_, launch_, waits_};
  QueueOps queue_ops_{queues_, sessions_, reservations_, waits_};
  Transactions transactions_{keys_, queues_, key_ops_, queue_ops_};
  SessionOps session_ops_;
  BarrierOps barrier_ops_{barriers_, sessions_, groups_, waits_, session_ops_};
  GroupOps group_ops_{groups_, barrier_ops_, waits_};
  CollectiveOps collective_ops_{ledger_, activity_, diagnoses_,
                                [this](TimePoint now) { return wait_sources(now); }};
};

}  // namespace c10dd::core
