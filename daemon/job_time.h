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
  static constexpr Duration kTurnMax = std::chrono::milliseconds(250);
  /// While deadlines are pending the loop turns at least this often, so that job time keeps up.
  static constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

  TimePoint now() const {
    const Duration passed = std::chrono::steady_clock::now() - turn_ended_;
    return time_ + std::min(passed, kTurnMax);
  }

  /// After ready sockets were drained; answers the time as it is now.
  TimePoint end_turn() {
    time_ = now();
    turn_ended_ = std::chrono::steady_clock::now();
    return time_;
  }

 private:
  TimePoint time_;
  std::chrono::steady_clock::time_point turn_ended_ = std::chrono::steady_clock::now();
};

}  // namespace c10dd::daemon
