// SPDX-License-Identifier: Apache-2.0
// Keeps the sessions without a connection that blocked requests wait for, until each session is
// connected again, has ended, or is gone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/core/audit.h"
#include "protocol/types.h"

namespace c10dd::core {

class Absences {
 public:
  /// Adds a session, or changes the time at which it counts as gone. Rounds the time up to a grid,
  /// so that sessions that were lost together share a tick.
  void wait_for(const SessionId& session, TimePoint gone_at) {
    constexpr Duration kGrid = std::chrono::milliseconds(25);
    const Duration since = gone_at.time_since_epoch();
    const TimePoint due((since + kGrid - Duration(1)) / kGrid * kGrid);
    const auto [at, added] = due_.try_emplace(session, due);
    if (!added) by_time_.erase({at->second, session});
    at->second = due;
    by_time_.emplace(due, session);
  }

  /// Removes a session that is back or has ended. Returns whether a request waited for it.
  bool over(const SessionId& session) {
    const auto at = due_.find(session);
    if (at == due_.end()) return false;
    by_time_.erase({at->second, session});
    due_.erase(at);
    return true;
  }

  /// Removes and returns the sessions that are gone by now.
  std::vector<SessionId> due(TimePoint now) {
    std::vector<SessionId> gone;
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      gone.push_back(by_time_.begin()->second);
      over(gone.back());
    }
    return gone;
  }

  std::optional<TimePoint> next_deadline() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

  bool waits_for(const SessionId& session) const { return due_.contains(session); }
  std::size_t size() const { return due_.size(); }
  Finding audit() const;

 private:
  std::map<SessionId, TimePoint> due_;
  std::set<std::pair<TimePoint, SessionId>> by_time_;
};

}  // namespace c10dd::core
