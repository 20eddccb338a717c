// SPDX-License-Identifier: Apache-2.0
// The notices of one group. A notice asks members to leave by a deadline; they acknowledge it, and
// are lost if they are still here at the deadline. Notices are stored in the group's row; which
// members a notice names is stored in the rows of the members.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Notices {
 public:
  /// Adds a notice and returns its number. Fails with not_found if it names no member, or with
  /// quota_exceeded.
  Result<std::uint64_t> notify(GroupState& group, const Notify& request, Moment& at);
  /// Notes that a member has seen a notice. Fails with not_found if the notice does not name it.
  Result<void> acknowledge(GroupState& group, const SessionId& id, std::uint64_t number,
                           Moment& at);
  /// Removes a member that ends from all notices. The caller writes its row and calls
  /// GroupState::note_status_change().
  void forget(GroupState& group, const SessionId& id);

  struct Overdue {
    std::vector<SessionId> members;  ///< members that did not leave in time, by rank
    std::string why;
  };
  /// Returns a notice whose deadline has come; each is returned once.
  std::optional<Overdue> take_overdue(const GroupState& group, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// Adds the notices to the status, without the time left.
  static void describe(const GroupState& group, GroupStatus& status);
  /// Sets the time left of the notices in a status, as of `now`.
  void set_time_left(GroupStatus& status, TimePoint now) const;

  /// Restores the notices after a restart: every deadline starts in full.
  void resume(const GroupState& group, TimePoint now);

 private:
  struct Open {
    std::size_t named = 0;           ///< members that it names
    std::size_t unacknowledged = 0;  ///< of these, without an acknowledgement
    std::optional<TimePoint> ends;
  };

  std::map<std::uint64_t, Open> open_;  // by number
};

}  // namespace c10dd::core
