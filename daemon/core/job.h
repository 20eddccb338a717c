// SPDX-License-Identifier: Apache-2.0
// Everything one training job coordinates through: keys, queues, watches, barriers, exchanges,
// sessions.
// Pure: no clock, no I/O, no threads. Equal calls in equal order give equal effects, so any run
// can be replayed. Life: restore() each row, resume(), then apply/disconnect/tick in any order.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/core/absences.h"
#include "daemon/core/call_board.h"
#include "daemon/core/collective_ledger.h"
#include "daemon/core/effects.h"
#include "daemon/core/group/groups.h"
#include "daemon/core/history.h"
#include "daemon/core/key_space.h"
#include "daemon/core/lifetimes.h"
#include "daemon/core/meetings.h"
#include "daemon/core/pending.h"
#include "daemon/core/queues.h"
#include "daemon/core/quotas.h"
#include "daemon/core/sessions.h"

namespace c10dd::core {

struct JobStats {
  std::size_t keys = 0;
  std::size_t bytes = 0;
  std::size_t queue_items = 0;
  std::size_t queue_bytes = 0;
  std::size_t history_bytes = 0;
  std::size_t waiters = 0;
  std::size_t meetings_pending = 0;
  std::size_t sessions = 0;         ///< connected
  std::size_t sessions_known = 0;   ///< also those that may come back
  std::size_t members = 0;          ///< of newest generations, here
  std::size_t members_missing = 0;  ///< of them, lost or left
};

class Job {
 public:
  /// start: incarnation, epoch and revision that the job is loaded with.
  Job(JobNumber number, Stamp start, const Quotas& quotas = {});

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

 private:
  struct Step;  // one request, or one tick, on its way through
  using Maybe = std::optional<Answer>;

  // job.cc: the switchboard, sessions, life
  Maybe dispatch(Step& step, const Request& request);
  Maybe admit(Step& step, const OpInfo& op);
  Maybe replay(Step& step, const OpInfo& op);
  bool arrived_before(const SessionId& session, const Request& request) const;
  Maybe on(Step&, const Hello&);
  Maybe on(Step&, const Ping&);
  Maybe on(Step&, const Goodbye&);
  Maybe on(Step&, const Cancel&);
  Maybe on(Step&, const Report&);
  Maybe on(Step&, const PublishCall&);
  Maybe on(Step&, const ReadCalls&);
  void acknowledge(Step& step, const SessionId& id, Session& session, std::uint64_t below);
  void end_session(Step& step, const SessionId& id, Ending ending);
  void settle(Step& step, const OpInfo& op, const Maybe& done);
  void forget_watches(Step& step);

  // job_keys.cc
  Maybe on(Step&, const Set&);
  Maybe on(Step&, const Check&);
  Maybe on(Step&, const Add&);
  Maybe on(Step&, const CompareSet&);
  Maybe on(Step&, const Remove&);
  Maybe on(Step&, const MultiSet&);
  Maybe on(Step&, const List&);
  Maybe on(Step&, const Count&);
  Maybe on(Step&, const Append&);
  Maybe on(Step&, const RemovePrefix&);
  void put(Step& step, const Bytes& key, Bytes value, const std::optional<Life>& life);
  bool remove(Step& step, const Bytes& key);
  void fire(Step& step, Bytes token);
  void told(Step& step, Change change);

  // job_transact.cc
  struct Plan;
  Maybe on(Step&, const Transact&);
  bool holds(const Condition& condition) const;
  Result<void> plan(Plan& plan, const Action& action) const;

  // job_queues.cc
  Maybe on(Step&, const QueuePush&);
  Maybe on(Step&, const QueuePop&);
  Maybe on(Step&, const QueueLength&);
  void push(Step& step, const Bytes& queue, Bytes value);
  Answer take(Step& step, const SessionId& session, std::uint64_t sequence,
              std::uint64_t fingerprint, const Bytes& queue);
  void give_back(Step& step, const Claim& claim);
  void serve_pops(Step& step);

  // job_groups.cc
  Maybe on(Step&, const Join&);
  Maybe on(Step&, const ReadMembers&);
  Maybe on(Step&, const Leave&);
  Maybe on(Step&, const FollowGroup&);
  Maybe on(Step&, const Notify&);
  Maybe on(Step&, const Acknowledge&);
  Maybe on(Step&, const Progress&);
  void settle_groups(Step& step);
  std::optional<Answer> look_again(const Pending::Waiter& waiter, Revision& observed,
                                   TimePoint now) const;

  // job_waits.cc
  Maybe on(Step&, const Get&);
  Maybe on(Step&, const Wait&);
  Maybe on(Step&, const MultiGet&);
  Maybe on(Step&, const Watch&);
  bool present(const Request& request, const Bytes& key) const;
  Maybe block(Step& step, const Request& request, std::vector<Bytes> tokens, Duration timeout);
  Maybe wait_for_keys(Step& step, const Request& request, const std::vector<Bytes>& keys,
                      Duration timeout);
  using Shortages = std::map<std::string, Failure>;  // by group
  Shortages shortages_of(const std::vector<Pending::Waiter>& overdue) const;
  void give_up(Step& step, const Pending::Waiter& waiter, const Shortages& shortages);
  void give_up_overdue(Step& step);
  struct Everybody everybody(TimePoint now) const;
  Answer answer_now(const Request& request, Revision& observed) const;
  Answer changes_for(const Watch& watch, Revision& observed) const;
  Answer overdue(const Pending::Waiter& waiter, Revision& observed, TimePoint now) const;
  void finish(Effects& out, const Pending::Waiter& waiter, Answer answer, Revision observed,
              TimePoint now) const;
  void release(Step& step);
  void release(Step& step, Pending::Waiter waiter);

  // job_meetings.cc
  Maybe on(Step&, const Barrier&);
  Maybe on(Step&, const Exchange&);
  template <class Op>
  Maybe meet(Step& step, const Op& op, const MeetingKey& key, Arrival arrival);
  void released(Step& step, const MeetingKey& key);
  void break_meetings(Step& step, const Group& group);
  std::optional<Failure> hopeless(const MeetingKey& key, const Meeting& meeting,
                                  TimePoint now) const;
  std::optional<Failure> check_bound(const Step& step, const MeetingKey& key, Rank rank,
                                     const Arrival& arrival) const;

  // job_relaunch.cc
  using Way = Result<std::optional<SessionId>>;
  Way make_way(Step& step, const MeetingKey& key, Rank rank, const Arrival& arrival);
  Way leave_behind(Step& step, const MeetingKey& key, Rank rank, Result<void> good);
  Way take_rank(Step& step, const MeetingKey& key, Rank rank, SessionId holder);
  Turnout turnout(const std::vector<std::pair<Rank, SessionId>>& all, TimePoint now) const;
  const Turnout& turnout(const CohortRef& cohort, TimePoint now);
  Failure restarted_alone(Step& step, const MeetingKey& key, Rank rank, const SessionId& holder,
                          const std::vector<CohortRef>& cohorts);
  void replace(Step& step, const MeetingKey& key, Rank rank, const SessionId& holder,
               std::vector<CohortRef> cohorts);
  static bool waits_for_absent(const Pending::Waiter& waiter);
  Maybe wait_for_absent(Step& step, const Request& request, const SessionId& absent,
                        Duration timeout);
  Answer absence_overdue(const Pending::Waiter& waiter, Revision& observed, TimePoint now) const;
  void settle_presence(Step& step);
  void note_presence(const SessionId& id);

  JobNumber number_;
  Stamp start_;
  Revision revision_;
  Quotas quotas_;
  KeySpace keys_;
  Lifetimes lifetimes_;
  History history_;
  Queues queues_;
  Sessions sessions_;
  Pending pending_;
  Meetings meetings_;
  Groups groups_;
  CollectiveLedger ledger_;
  CallBoard call_board_;
  Absences absences_;
  std::uint64_t presence_changes_ = 1;  ///< of sessions that take part in meetings
};

}  // namespace c10dd::core
