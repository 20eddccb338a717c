// SPDX-License-Identifier: Apache-2.0
// When the next batch may start. Clients that were just answered tend to ask again at once: a batch
// that waits for them a little carries all of them with one sync, where batches that start at once
// carry the two halves in turns, each waiting for the sync of the other. The wait is at most half
// of what the last batch took, so it pays only where the sync is what everybody waits for; where
// those who were answered do not come back in time, it is not tried again for a while.
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
  /// Batches that start at once after a wait in vain; twice as many after each further one.
  static constexpr std::size_t kFirstRest = 8;
  static constexpr std::size_t kLongestRest = 256;

  /// A batch has ended that answered `answered` requests; `waiting` have gathered meanwhile.
  void ended(Time now, Duration took, std::size_t answered, std::size_t waiting) {
    pause_.reset();
    if (resting_ > 0) {
      --resting_;
    } else if (answered > 0 && waiting > 0) {  // else there is nobody to wait for, or with
      pause_ = Pause{now + std::min(took / 2, kLongestWait), answered, waiting};
    }
  }

  /// Whether a batch may start now, with so many requests. Ends the wait if so.
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

  /// When to ask again at the latest.
  std::optional<Time> until() const { return pause_ ? std::optional(pause_->until) : std::nullopt; }

 private:
  struct Pause {
    Time until;
    std::size_t answered = 0;
    std::size_t before = 0;  ///< requests that wait, of those who were not answered
  };
  std::optional<Pause> pause_;
  std::size_t rest_ = 0;
  std::size_t resting_ = 0;
};

}  // namespace c10dd::core
