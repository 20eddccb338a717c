// SPDX-License-Identifier: Apache-2.0
// Job time of one loop: it moves only while the loop turns, and at most kTurnMax in one turn, so a
// process that was paused expires nobody.
#pragma once

#include <algorithm>
#include <chrono>

#include "protocol/types.h"

namespace c10dd::daemon {

class JobTime {
 public:
  using Clock = std::chrono::steady_clock::time_point (*)();

  static constexpr Duration kTurnMax = std::chrono::milliseconds(250);
  /// While deadlines are pending the loop turns at least this often, so that job time keeps up.
  static constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

  explicit JobTime(Clock clock = std::chrono::steady_clock::now)
      : clock_(clock), turn_ended_(clock()) {}

  TimePoint now() const {
    if (stands_still_) return time_;
    const Duration passed = clock_() - turn_ended_;
    return time_ + std::min(passed, kTurnMax);
  }

  /// After ready sockets were drained; answers the time as it is now.
  TimePoint end_turn() {
    time_ = now();
    turn_ended_ = clock_();
    return time_;
  }

  /// From now on no time passes.
  void stand_still() {
    time_ = now();
    stands_still_ = true;
  }

 private:
  Clock clock_;
  TimePoint time_;
  bool stands_still_ = false;
  std::chrono::steady_clock::time_point turn_ended_;
};

}  // namespace c10dd::daemon
