// SPDX-License-Identifier: Apache-2.0
// Keeps the job time of one loop. Job time advances only while the loop turns, and at most by
// kTurnMax in one turn. So a pause of the process does not make sessions expire.
// Pure: the caller passes the clock. Not thread-safe: belongs to one host.
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
  /// While deadlines are pending, the loop turns at least this often. This way job time keeps up
  /// with the clock.
  static constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

  /// In all functions, `clock` is the value of HostLoop::now().
  explicit JobTime(SteadyTime clock) : turn_ended_(clock) {}

  TimePoint now(SteadyTime clock) const {
    if (stands_still_) return time_;
    const Duration passed = clock - turn_ended_;
    return time_ + std::min(passed, kTurnMax);
  }

  /// Ends a turn, after its handlers have run. Returns the current job time.
  TimePoint end_turn(SteadyTime clock) {
    time_ = now(clock);
    turn_ended_ = clock;
    return time_;
  }

  /// Stops job time for good.
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
