// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/progress.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {

void ProgressReports::note(GroupState& group, const SessionId& id, const Progress& report,
                           ChangeContext& at) {
  bool was_stalled = false;
  group.change(id, [&](GroupMember& m) {
    m.phase = printable(report.phase.substr(0, limits::kNameBytes), limits::kNameBytes);
    m.at_step = report.step;
    was_stalled = std::exchange(m.stalled, false);
  });
  stall_times_.erase(id);
  if (report.limit > Duration::zero()) {
    stall_times_.set(id, at.now + std::min<Duration>(report.limit, limits::kTimeoutMax));
  }
  if (was_stalled) group.note_status_change(at);
}

std::vector<Rank> ProgressReports::mark_stalled(GroupState& group, ChangeContext& at) {
  std::vector<Rank> stalled;
  if (next_deadline().value_or(TimePoint::max()) > at.now) return stalled;
  while (const std::optional<SessionId> id = stall_times_.take_due(at.now)) {
    group.change(*id, [](GroupMember& m) { m.stalled = true; });
    stalled.push_back(static_cast<Rank>(group.find(*id)->rank));
    group.note_status_change(at);
  }
  return stalled;
}

}  // namespace c10dd::core
