// SPDX-License-Identifier: Apache-2.0
// Answers barrier and exchange requests: checks the requests, records arrivals, and releases or
// breaks the barriers, including barriers that are bound to the generation of a group. Relaunch
// (relaunch.h) decides who gets a rank that an earlier process held.
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

  /// Returns true if the request is an exchange that adds no data to the state, either because the
  /// session has already arrived as this rank, or because the exchange is broken.
  bool arrived_before(const SessionId& session, const Request& request) const;

  /// Breaks the unfinished barriers of the group that can no longer complete: their generation has
  /// ended, or a missing participant has finished, has left or is lost.
  void break_bound(Step& step, const Group& group);

  // ---- parts of Job::settle(), for the sessions in Step::presence
  /// Releases the barriers whose last absent session is connected again.
  void release_returned(Step& step);
  /// Handles once more each request that waited for a session in Step::presence to be connected
  /// again, to count as gone or to end. Empties Step::presence.
  void recheck_absent(Step& step);

  /// Adds to Step::presence the sessions that requests wait for, if they now count as gone.
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
  /// The absent sessions that blocked requests wait for, and the times at which they count as gone.
  Deadlines<SessionId> absences_;
};

}  // namespace c10dd::core
