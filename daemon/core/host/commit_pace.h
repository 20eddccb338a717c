// SPDX-License-Identifier: Apache-2.0
// Decides when the next commit batch of a host may start. Clients that just got a reply tend to
// send their next request at once. A batch that waits for these requests a little commits all of
// them with one sync. Batches that start at once split the clients into two halves that alternate:
// each half waits for the sync of the other. The wait is at most half as long as the last batch
// took, so it is short where syncs are fast. If the clients do not come back in time, the next
// batches start without a wait.
// Pure: the caller passes the time. Not thread-safe: belongs to one host.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "protocol/types.h"

namespace c10dd::core {

class CommitPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr Duration kLongestWait = std::chrono::milliseconds(5);
  /// Batches that start at once after a wait in vain. Doubled after each further wait in vain, up
  /// to kLongestRest.
  static constexpr std::size_t kFirstRest = 8;
  static constexpr std::size_t kLongestRest = 256;

  /// Records the end of a batch that took `took` and answered `answered` requests. `waiting`
  /// requests have gathered meanwhile.
  void ended(Time now, Duration took, std::size_t answered, std::size_t waiting) {
    pause_.reset();
    if (resting_ > 0) {
      --resting_;
    } else if (answered > 0 && waiting > 0) {  // else no client comes back, or none waits
      pause_ = Pause{now + std::min(took / 2, kLongestWait), answered, waiting};
    }
  }

  /// Returns true if a batch may start now; `waiting` requests have gathered for it. Ends the wait
  /// if so.
  bool ready(Time now, std::size_t waiting) {
    if (!pause_) return true;
    const std::size_t back = waiting - std::min(waiting, pause_->before);
    const bool all = back >= pause_->answered;
    if (!all && now < pause_->until) return false;
    const bool in_vain = back < pause_->answered - pause_->answered / 2;
    rest_ = in_vain ? std::clamp(2 * rest_, kFirstRest, kLongestRest) : 0;
    resting_ = rest_;
    pause_.reset();
    return true;
  }

  /// Returns the end of the wait, the latest time to call ready() again; empty without a wait.
  std::optional<Time> until() const { return pause_ ? std::optional(pause_->until) : std::nullopt; }

 private:
  struct Pause {
    Time until;
    std::size_t answered = 0;
    std::size_t before = 0;  ///< requests that had gathered when the wait began
  };
  std::optional<Pause> pause_;
  std::size_t rest_ = 0;     ///< batches without a wait after the last wait in vain
  std::size_t resting_ = 0;  ///< how many of these are left
};

}  // namespace c10dd::core
