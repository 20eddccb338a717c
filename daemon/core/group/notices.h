// SPDX-License-Identifier: Apache-2.0
// Keeps the notices of one group. A notice asks the members that it names to acknowledge it, and to
// leave by a deadline. A named member that has not left in time is lost. Notices are stored in the
// group's row; the row of each member lists the notices that name the member.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Notices {
 public:
  /// Adds a notice and returns its number. Fails with not_found if the notice names no member, and
  /// with quota_exceeded if the group has too many notices.
  Result<std::uint64_t> notify(GroupState& group, const Notify& request, ChangeContext& at);
  /// Notes that a member has seen a notice. Fails with not_found if the notice does not name the
  /// member.
  Result<void> acknowledge(GroupState& group, const SessionId& id, std::uint64_t number,
                           ChangeContext& at);
  /// Removes a member from all notices because its membership ends. The caller must then write the
  /// member's row and call GroupState::note_status_change().
  void forget(GroupState& group, const SessionId& id);

  struct Overdue {
    std::vector<SessionId> members;  ///< members that have not left, in the order of their ranks
    std::string why;
  };
  /// Finds a notice whose deadline has come, and returns the named members that have not left.
  /// Finds each notice only once.
  std::optional<Overdue> take_overdue(const GroupState& group, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// Adds the notices to the status, except the time left until their deadlines.
  static void describe(const GroupState& group, GroupStatus& status);
  /// Sets, for each notice in `status`, the time from `now` until the deadline of the notice.
  void set_time_left(GroupStatus& status, TimePoint now) const;

  /// Brings the stored notices up to date with what is left of their deadlines, see time_left.h.
  void note_time_left(GroupState& group, TimePoint now);
  /// Restores the notices after a restart.
  void resume(const GroupState& group, TimePoint now);

 private:
  struct Open {
    std::size_t named = 0;           ///< members that it names
    std::size_t unacknowledged = 0;  ///< of these, without an acknowledgement
    std::optional<TimePoint> ends;
    std::optional<TimePoint> note_at;  ///< when its row must have what is left
  };

  std::map<std::uint64_t, Open> open_;  // by number
};

}  // namespace c10dd::core
