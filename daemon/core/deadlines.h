// SPDX-License-Identifier: Apache-2.0
// Keeps one deadline for each key, and finds the keys whose deadline has come.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "protocol/types.h"

namespace c10dd::core {

inline constexpr Duration kTickGrid = std::chrono::milliseconds(25);

/// Rounds a deadline up to a multiple of kTickGrid, so that one tick handles all sessions that were
/// lost together.
inline TimePoint shared_tick(TimePoint deadline) {
  const Duration since = deadline.time_since_epoch();
  return TimePoint((since + kTickGrid - Duration(1)) / kTickGrid * kTickGrid);
}

template <class Key>
class Deadlines {
 public:
  /// Sets the deadline of a key. If the key already has a deadline, replaces it.
  void set(const Key& key, TimePoint when) {
    erase(key);
    by_key_.emplace(key, when);
    by_time_.emplace(when, key);
  }

  /// Erases the deadline of a key. Has no effect if the key has no deadline.
  void erase(const Key& key) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return;
    by_time_.erase({it->second, key});
    by_key_.erase(it);
  }

  bool contains(const Key& key) const { return by_key_.contains(key); }
  std::size_t size() const { return by_key_.size(); }

  std::optional<TimePoint> next() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

  /// If the earliest deadline has come, erases that deadline and returns its key.
  std::optional<Key> take_due(TimePoint now) {
    if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
    const Key key = by_time_.begin()->second;
    erase(key);
    return key;
  }

 private:
  std::map<Key, TimePoint> by_key_;
  std::set<std::pair<TimePoint, Key>> by_time_;
};

}  // namespace c10dd::core
