// SPDX-License-Identifier: Apache-2.0
// Ends the process at a given time even if its other threads are blocked: a disk that hangs must
// not keep a daemon from stopping. With durability fsync or os nothing acknowledged is lost then,
// since it is in the engine's log.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace c10dd::daemon {

/// A deadline of the process, kept by a thread of its own.
class EndBy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EndBy() = default;
  ~EndBy() { cancel(); }
  EndBy(const EndBy&) = delete;
  EndBy& operator=(const EndBy&) = delete;

  /// Sets the deadline. To be called at most once. At `end` the process exits with kTryAgain (75).
  void set(Time end);
  /// Cancels the deadline, since the process ends by itself. Joins the thread.
  void cancel();

 private:
  void wait(Time end);

  std::mutex mutex_;
  std::condition_variable cancelled_now_;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace c10dd::daemon
