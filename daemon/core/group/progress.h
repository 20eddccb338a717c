// SPDX-License-Identifier: Apache-2.0
// Records the progress reports of one group's members, and marks a member as stalled if it does not
// report by the time that it promised. A stalled member keeps its place.
#pragma once

#include <optional>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/group/state.h"

namespace c10dd::core {

class ProgressReports {
 public:
  /// Records a progress report. The member must have a rank.
  void note(GroupState& group, const SessionId& id, const Progress& report, ChangeContext& at);
  /// Forgets a member that ends.
  void forget(const SessionId& id) { stall_times_.erase(id); }
  /// Marks the members that did not report in time as stalled, and returns their ranks: those of
  /// about the same moment together, because members that wait for a stalled one stall, too, and
  /// may have reported before it.
  std::vector<Rank> mark_stalled(GroupState& group, ChangeContext& at);
  std::optional<TimePoint> next_deadline() const {
    const auto next = stall_times_.next();
    return next ? std::optional(*next + kGathered) : std::nullopt;
  }

 private:
  static constexpr Duration kGathered = std::chrono::milliseconds(250);

  Deadlines<SessionId> stall_times_;
};

}  // namespace c10dd::core
