// SPDX-License-Identifier: Apache-2.0
// Things that have one deadline each, and which of them comes first.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "protocol/types.h"

namespace c10dd::core {

template <class Key>
class Deadlines {
 public:
  /// Replaces an older deadline of this key.
  void set(const Key& key, TimePoint when) {
    erase(key);
    by_key_.emplace(key, when);
    by_time_.emplace(when, key);
  }

  /// Has no effect on a key without a deadline.
  void erase(const Key& key) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return;
    by_time_.erase({it->second, key});
    by_key_.erase(it);
  }

  std::optional<TimePoint> next() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

  /// The first key whose deadline has come; its deadline is erased.
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
