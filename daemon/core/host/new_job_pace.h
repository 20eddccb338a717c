// SPDX-License-Identifier: Apache-2.0
// Paces the new jobs of each client, so that one that makes jobs without end neither fills the
// directory in minutes nor keeps the daemons of a fleet busy. The generic cell rate algorithm
// (ITU-T I.371): a client may make kNewJobsAtOnce jobs at once, then kNewJobsPerSecond.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "protocol/limits.h"
#include "protocol/types.h"

namespace c10dd::core {

class NewJobPace {
 public:
  /// Returns when this client may make its next job. Returns nothing if that is more than
  /// kNewJobWait from now.
  std::optional<TimePoint> next(const std::string& client, TimePoint now) {
    if (full_at_.size() >= most_) {
      std::erase_if(full_at_, [now](const auto& entry) { return entry.second <= now; });
      most_ = std::max(kClientsKept, 2 * full_at_.size());
    }
    TimePoint& full_at = full_at_[client];
    full_at = std::max(full_at, now);
    const TimePoint when = std::max(now, full_at - limits::kNewJobsAtOnce * kInterval);
    if (when - now > limits::kNewJobWait) return std::nullopt;
    full_at += kInterval;
    return when;
  }

 private:
  static constexpr std::size_t kClientsKept = 1024;  // those above have made jobs just now
  static constexpr Duration kInterval =
      Duration(std::chrono::seconds(1)) / limits::kNewJobsPerSecond;

  /// When each client has its whole allowance again.
  std::map<std::string, TimePoint> full_at_;
  std::size_t most_ = kClientsKept;  // clients, before the others are forgotten
};

}  // namespace c10dd::core
