// SPDX-License-Identifier: Apache-2.0
// Everything one training job coordinates through: keys, waits, barriers, exchanges, sessions.
// Pure: no clock, no I/O, no threads. Equal calls in equal order give equal effects, so any run
// can be replayed. Life: restore() each row, resume(), then apply/disconnect/tick in any order.
#pragma once

#include <optional>

#include "daemon/core/collective_ledger.h"
#include "daemon/core/effects.h"
#include "daemon/core/key_space.h"
#include "daemon/core/meetings.h"
#include "daemon/core/pending.h"
#include "daemon/core/sessions.h"

namespace c10dd::core {

struct JobStats {
  std::size_t keys = 0;
  std::size_t bytes = 0;
  std::size_t waiters = 0;
  std::size_t meetings_pending = 0;
  std::size_t sessions = 0;  ///< connected
};

class Job {
 public:
  /// start: incarnation, epoch and revision that the job is loaded with.
  Job(JobNumber number, Stamp start) : number_(number), start_(start), revision_(start.revision) {}

  /// Takes up one row of the last run; malformed names the kind of a damaged one.
  Result<void> restore(const Row& row);
  /// After the last row: every time-out and grace starts in full at `now`.
  Result<void> resume(TimePoint now);

  Effects apply(const Origin& from, const CallId& call, const Request& request, TimePoint now);

  /// The connection of a session went. The session stays.
  Effects disconnect(const SessionId& session, TimePoint now);

  /// Fires every deadline <= now.
  Effects tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const { return pending_.next_deadline(); }

  /// Changes up to this revision are on disk.
  void durable(Revision revision) { keys_.durable(revision); }

  Revision revision() const { return revision_; }
  JobStats stats() const;

 private:
  struct Step;  // one request on its way through apply
  using Maybe = std::optional<Answer>;

  Maybe dispatch(Step& step, const Request& request);
  Maybe on(Step&, const Hello&);
  Maybe on(Step&, const Ping&);
  Maybe on(Step&, const Goodbye&);
  Maybe on(Step&, const Set&);
  Maybe on(Step&, const Get&);
  Maybe on(Step&, const Wait&);
  Maybe on(Step&, const Check&);
  Maybe on(Step&, const Add&);
  Maybe on(Step&, const CompareSet&);
  Maybe on(Step&, const Remove&);
  Maybe on(Step&, const MultiGet&);
  Maybe on(Step&, const MultiSet&);
  Maybe on(Step&, const List&);
  Maybe on(Step&, const Count&);
  Maybe on(Step&, const Barrier&);
  Maybe on(Step&, const Exchange&);
  Maybe on(Step&, const Report&);

  Maybe replay(Step& step, Session& session, const OpInfo& op);
  void put(Step& step, const Bytes& key, Bytes value);
  void remove(Step& step, const Bytes& key);
  Maybe block(Step& step, const Request& request, std::vector<Bytes> tokens, Duration timeout);
  Maybe wait_for_keys(Step& step, const Request& request, const std::vector<Bytes>& keys,
                      Duration timeout);
  template <class Op>
  Maybe meet(Step& step, const Op& op, const MeetingKey& key, Arrival arrival);
  Answer answer_now(const Request& request, Revision& observed) const;
  Failure overdue(const Pending::Waiter& waiter, Revision& observed, TimePoint now) const;
  void finish(Effects& out, const Pending::Waiter& waiter, Answer answer, Revision observed,
              TimePoint now) const;
  void release(Step& step);

  JobNumber number_;
  Stamp start_;
  Revision revision_;
  KeySpace keys_;
  Sessions sessions_;
  Pending pending_;
  Meetings meetings_;
  CollectiveLedger ledger_;
};

}  // namespace c10dd::core
