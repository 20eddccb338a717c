// SPDX-License-Identifier: Apache-2.0
// LoopbackMessages: the sends and receives of a group whose ranks are threads of one process.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/backend.h"
#include "collectives/message_matcher.h"
#include "collectives/timer_thread.h"

namespace c10dd::collectives {

/// The messages among all ranks of a group. The thread that brings the second of a send and its
/// recv copies the elements and ends both. Thread-safe.
class LoopbackMessages final : private TimerThread::Task {
 public:
  /// `on_time_out` is called on the timer thread when a message has reached its deadline. It must
  /// call fail().
  LoopbackMessages(Rank size, std::function<void(const Failure&)> on_time_out);
  ~LoopbackMessages();

  /// Starts a send or recv of `rank`.
  void start(Rank rank, const Operation& operation, Completion& completion);

  /// Ends all messages that are waiting, and all later ones. Does nothing after the first call.
  void fail(const Failure& reason);

 private:
  struct Offer {
    Rank source;
    std::uint32_t tag;
    const Operation* operation;
    Completion* completion;
  };
  struct Receive {
    const Operation* operation;
    Completion* completion;
  };
  using Clock = TimerThread::Clock;

  Clock::time_point on_time(Clock::time_point now) noexcept override;
  static void deliver(const Offer& offer, const Receive& receive, Rank receiver);

  const std::function<void(const Failure&)> on_time_out_;
  std::mutex mutex_;
  std::vector<MessageMatcher<Offer, Receive>> inboxes_;  // by receiving rank
  std::optional<Failure> dead_;
};

}  // namespace c10dd::collectives
