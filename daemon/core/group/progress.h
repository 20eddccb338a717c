// SPDX-License-Identifier: Apache-2.0
// Progress that the members of one group report, and the times by which they promised more. A
// member that has reported none by then is stalled; it keeps its place.
#pragma once

#include <optional>
#include <vector>

#include "daemon/core/group/deadlines.h"
#include "daemon/core/group/state.h"

namespace c10dd::core {

class ProgressReports {
 public:
  /// Of a member that has a rank.
  void note(GroupState& group, const SessionId& id, const Progress& report, Moment& at);
  /// The member ends.
  void forget(const SessionId& id) { stall_times_.erase(id); }
  /// Marks the members whose time is over, and returns their ranks.
  std::vector<Rank> mark_stalled(GroupState& group, Moment& at);
  std::optional<TimePoint> next_deadline() const { return stall_times_.next(); }

 private:
  Deadlines<SessionId> stall_times_;
};

}  // namespace c10dd::core
