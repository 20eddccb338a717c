// SPDX-License-Identifier: Apache-2.0
// Decides when the next commit batch of a host may start. Clients that just got a reply tend to
// send their next request soon. A batch that waits a little for these requests commits all of them
// with one sync. Without the wait, the clients would split into two halves that alternate: each
// half would wait while the batch of the other half is synced. The wait is at most half as long as
// the last batch took, so the wait is short if syncs are fast. If the clients send no requests in
// time, the next batches start without a wait.
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
  /// A wait is in vain if too few requests arrive. After a wait in vain, kFirstRest batches start
  /// without a wait. Each further wait in vain doubles this number, up to kLongestRest.
  static constexpr std::size_t kFirstRest = 8;
  static constexpr std::size_t kLongestRest = 256;

  /// Records the end of a batch, which lasted for `took`. `answered` is how many requests the batch
  /// has answered; `waiting` is how many requests have arrived for the next batch.
  void ended(Time now, Duration took, std::size_t answered, std::size_t waiting) {
    pause_.reset();
    if (resting_ > 0) {
      --resting_;
    } else if (answered > 0 && waiting > 0) {  // if either number is 0, a wait gains nothing
      pause_ = Pause{now + std::min(took / 2, kLongestWait), answered, waiting};
    }
  }

  /// If a batch may start at `now`, ends the wait and returns true. `waiting` is how many requests
  /// have arrived for the batch.
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

  /// Returns the time at which to call ready() again; empty if there is nothing to wait for.
  std::optional<Time> until() const { return pause_ ? std::optional(pause_->until) : std::nullopt; }

 private:
  struct Pause {
    Time until;
    std::size_t answered = 0;
    std::size_t before = 0;  ///< requests that had gathered when the wait began
  };
  std::optional<Pause> pause_;
  std::size_t rest_ = 0;     ///< how many batches start without a wait after the last wait in vain
  std::size_t resting_ = 0;  ///< how many batches still start without a wait
};

}  // namespace c10dd::core
