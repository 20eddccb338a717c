// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_deadlines.h"

#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"

namespace c10dd::core {

void JobDeadlines::watch(const JobRef& slot) {
  const bool still = slot->dropped || slot->moving;
  const auto next = still ? std::nullopt : slot->job->next_deadline();
  if (next == slot->deadline) return;
  if (slot->deadline && planted(Planted::deadline_forgotten)) return;
  if (slot->deadline) jobs_.erase({*slot->deadline, slot});
  slot->deadline = next;
  if (next) jobs_.emplace(*next, slot);
}

void JobDeadlines::remove(const JobRef& slot) {
  if (slot->deadline) jobs_.erase({*std::exchange(slot->deadline, {}), slot});
}

JobRef JobDeadlines::take_due(TimePoint now) {
  if (jobs_.empty() || jobs_.begin()->first > now) return nullptr;
  JobRef slot = jobs_.begin()->second;
  jobs_.erase(jobs_.begin());
  slot->deadline.reset();
  return slot;
}

std::optional<TimePoint> JobDeadlines::next() const {
  return jobs_.empty() ? std::nullopt : std::optional(jobs_.begin()->first);
}

}  // namespace c10dd::core
