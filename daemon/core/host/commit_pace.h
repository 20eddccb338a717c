// SPDX-License-Identifier: Apache-2.0
// Decides when the next commit batch of a host may start. Clients that just got a reply tend to
// send their next request soon. If the next batch waits a little for these requests, one sync
// commits all of them. Without a wait, the clients split into two halves: while the batch of one
// half is synced, the other half waits. The wait is at most half as long as the last batch took, so
// it is short if syncs are fast. If the requests do not come in time, the next batches start
// without a wait.
// Reads no clock: the caller passes the time. Not thread-safe: belongs to one host.
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
  /// A wait is in vain if too few requests arrive during the wait. After the first wait in vain,
  /// kFirstRest batches start without a wait. Each further wait in vain doubles this number of
  /// batches, up to kLongestRest. After a useful wait, the number starts again at kFirstRest.
  static constexpr std::size_t kFirstRest = 8;
  static constexpr std::size_t kLongestRest = 256;

  /// Records the end of a batch, which lasted for `took`. `answered` is how many requests the batch
  /// has answered; `waiting` is how many requests have arrived for the next batch.
  void ended(Time now, Duration took, std::size_t answered, std::size_t waiting) {
    pause_.reset();
    if (resting_ > 0) {
      --resting_;
    } else if (answered > 0 && waiting > 0) {  // otherwise a wait gains nothing
      pause_ = Pause{now + std::min(took / 2, kLongestWait), answered, waiting};
    }
  }

  /// Returns whether a batch may start at `now`. If so, ends the wait. `waiting` is how many
  /// requests have arrived for the batch.
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
    std::size_t before = 0;  ///< how many requests had arrived when the wait began
  };
  std::optional<Pause> pause_;
  std::size_t rest_ = 0;     ///< how many batches in a row start without a wait
  std::size_t resting_ = 0;  ///< how many of these batches are still to come
};

}  // namespace c10dd::core
