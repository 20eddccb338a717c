// SPDX-License-Identifier: Apache-2.0
// The jobs of a host that have a deadline, the earliest first.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "daemon/core/host/job_slot.h"

namespace c10dd::core {

class JobDeadlines {
 public:
  /// Takes over the next deadline of a job. A job that was dropped or that moves has none.
  void watch(const JobRef& slot);
  void remove(const JobRef& slot);
  /// Removes the first job whose deadline is not after `now`, and returns it. Returns null if there
  /// is none.
  JobRef take_due(TimePoint now);
  /// Returns the first deadline; empty if no job has one.
  std::optional<TimePoint> next() const;
  void clear() { jobs_.clear(); }

 private:
  /// Orders jobs of equal deadlines by number, so that simulated runs are reproducible.
  struct Earlier {
    bool operator()(const std::pair<TimePoint, JobRef>& a,
                    const std::pair<TimePoint, JobRef>& b) const {
      return std::pair(a.first, a.second->number) < std::pair(b.first, b.second->number);
    }
  };
  std::set<std::pair<TimePoint, JobRef>, Earlier> jobs_;
};

}  // namespace c10dd::core
