// SPDX-License-Identifier: Apache-2.0
// Answers barrier and exchange requests: checks them, records arrivals, and releases or breaks the
// barriers, including those that are bound to the generation of a group. relaunch.h decides who
// gets a rank that an earlier process held.
#pragma once

#include <optional>

#include "daemon/core/deadlines.h"
#include "daemon/core/relaunch.h"
#include "daemon/core/waits.h"

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

  Maybe on(Step& step, const Barrier& barrier);
  Maybe on(Step& step, const Exchange& exchange);

  /// Returns whether the request is an exchange that can not make the state grow: the session has
  /// arrived before as this rank, or the exchange is broken.
  bool arrived_before(const SessionId& session, const Request& request) const;

  /// Breaks the unfinished barriers of the group that can not complete any more: their generation
  /// has ended, or a missing participant has finished, has left or is lost.
  void break_bound(Step& step, const Group& group);

  // ---- parts of Job::settle(), for the sessions in Step::presence
  /// Releases the barriers that waited only for the connection of a session that is back.
  void release_returned(Step& step);
  /// Handles again the requests that waited until a session is back, gone or has ended. Empties the
  /// list.
  void recheck_absent(Step& step);

  /// Adds to Step::presence the sessions that are gone by now and that requests wait for.
  void tick(Step& step);
  std::optional<TimePoint> next_deadline() const { return absences_.next(); }
  const Deadlines<SessionId>& absences() const { return absences_; }

 private:
  template <class Op>
  Maybe arrive(Step& step, const Op& op, const BarrierKey& key, Arrival arrival);
  template <class Op>
  Maybe wait_for_absent(Step& step, const Op& op, const SessionId& absent);
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
  /// The times at which sessions that blocked requests wait for count as gone.
  Deadlines<SessionId> absences_;
};

}  // namespace c10dd::core
