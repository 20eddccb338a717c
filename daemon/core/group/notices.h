// SPDX-License-Identifier: Apache-2.0
// The notices of one group: members are asked to leave by a deadline, acknowledge it, and are lost
// if they are still here then. The notices are in the group's facts, the members that each names in
// the rows of the members.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Notices {
 public:
  /// Returns the notice's number. Fails with not_found or quota_exceeded.
  Result<std::uint64_t> notify(GroupState& group, const Notify& request, Moment& at);
  Result<void> acknowledge(GroupState& group, const SessionId& id, std::uint64_t number,
                           Moment& at);
  /// The member ends: no notice names it any more. The caller writes its row and tells the members.
  void forget(GroupState& group, const SessionId& id);

  struct Overdue {
    std::vector<SessionId> members;  ///< that did not leave in time, by rank
    std::string why;
  };
  /// The next notice whose deadline has come; it is handed over once.
  std::optional<Overdue> take_overdue(const GroupState& group, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// Adds the notices to what members are told, without the time that is left.
  static void describe(const GroupState& group, GroupStatus& status);
  void set_time_left(GroupStatus& status, TimePoint now) const;

  /// After a restart: every deadline starts in full.
  void resume(const GroupState& group, TimePoint now);

 private:
  struct Open {
    std::size_t named = 0;           ///< members
    std::size_t unacknowledged = 0;  ///< of these
    std::optional<TimePoint> ends;
  };

  std::map<std::uint64_t, Open> open_;  // by number
};

}  // namespace c10dd::core
