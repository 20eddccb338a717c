// SPDX-License-Identifier: Apache-2.0
// Answers barrier and exchange requests: checks the requests, records arrivals, and releases or
// breaks the barriers, including barriers that are bound to the generation of a group. Relaunch
// (relaunch.h) decides who gets a rank that an earlier process held.
#pragma once

#include <optional>

#include "daemon/core/deadlines.h"
#include "daemon/core/job/relaunch.h"
#include "daemon/core/waiting/waits.h"

namespace c10dd::core {

class BarrierOps {
 public:
  BarrierOps(Barriers& barriers, Sessions& sessions, const Groups& groups, Waits& waits,
             SessionOps& session_ops)
      : barriers_(barriers),
        sessions_(sessions),
        groups_(groups),
        waits_(waits),
        relaunch_(barriers, sessions, session_ops) {}

  OptionalReply on(Step& step, const Barrier& barrier);
  OptionalReply on(Step& step, const Exchange& exchange);

  /// Returns true if the request is for a broken exchange, or for an exchange at which the session
  /// has already arrived with the rank in the request. Such a request adds no data to the state.
  bool arrived_before(const SessionId& session, const Request& request) const;

  /// Breaks each unfinished barrier of the group that can no longer complete. A barrier can no
  /// longer complete if its generation has ended, or if a missing participant has finished, has
  /// left or is lost.
  void break_bound(Step& step, const Group& group);

  // ---- parts of Job::settle(), for the sessions in Step::presence
  /// Releases each barrier whose absent sessions are all connected again.
  void release_returned(Step& step);
  /// Handles again the blocked requests that wait for sessions in Step::presence, and empties it.
  void recheck_absent(Step& step);

  /// Adds to Step::presence each session that now counts as gone and for which a request waits.
  void tick(Step& step);
  std::optional<TimePoint> next_deadline() const { return absences_.next(); }
  const Deadlines<SessionId>& absences() const { return absences_; }

 private:
  template <class Op>
  OptionalReply arrive(Step& step, const Op& op, const BarrierKey& key, Arrival arrival);
  template <class Op>
  OptionalReply wait_for_presence(Step& step, const Op& op, const SessionId& other);
  void look_again_at(const SessionId& absent);
  Reply break_if_ranks_differ(Step& step, const BarrierKey& key, Failure reason);
  void ask_again(Step& step, const Pending::Waiter& waiter);
  void released(Step& step, const BarrierKey& key);
  void fail(Step& step, const BarrierKey& key, Failure reason);
  std::optional<Failure> can_not_complete(const BarrierKey& key, const BarrierState& barrier,
                                          TimePoint now) const;
  std::optional<Failure> check_bound(const Step& step, const BarrierKey& key, Rank rank,
                                     const Arrival& arrival) const;

  Barriers& barriers_;
  Sessions& sessions_;
  const Groups& groups_;
  Waits& waits_;
  Relaunch relaunch_;
  /// The absent sessions that blocked requests wait for, and the times at which they count as gone.
  Deadlines<SessionId> absences_;
};

}  // namespace c10dd::core
