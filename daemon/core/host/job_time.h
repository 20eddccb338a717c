// SPDX-License-Identifier: Apache-2.0
// Job time of one loop: it moves only while the loop turns, and at most kTurnMax in one turn, so a
// process that was paused expires nobody.
#pragma once

#include <algorithm>
#include <chrono>

#include "daemon/core/host/host_loop.h"
#include "daemon/core/planted.h"
#include "protocol/types.h"

namespace c10dd::core {

class JobTime {
 public:
  static constexpr Duration kTurnMax = std::chrono::milliseconds(250);
  /// While deadlines are pending the loop turns at least this often, so that job time keeps up.
  static constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

  /// clock: the process's, now, here and below.
  explicit JobTime(SteadyTime clock) : turn_ended_(clock) {}

  TimePoint now(SteadyTime clock) const {
    if (stands_still_) return time_;
    const Duration passed = clock - turn_ended_;
    return time_ + std::min(passed, kTurnMax);
  }

  /// After ready sockets were drained. Returns the time as it is now.
  TimePoint end_turn(SteadyTime clock) {
    time_ = now(clock);
    turn_ended_ = clock;
    return time_;
  }

  /// From now on no time passes.
  void stand_still(SteadyTime clock) {
    end_turn(clock);
    stands_still_ = !planted(Planted::time_passes_in_drain);
  }

 private:
  TimePoint time_;
  bool stands_still_ = false;
  SteadyTime turn_ended_;
};

}  // namespace c10dd::core
