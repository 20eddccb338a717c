// SPDX-License-Identifier: Apache-2.0
// Ends the process at a given time, even if other threads are blocked, so that a disk that hangs
// cannot keep a daemon from stopping. With durability fsync or os, no acknowledged change is lost
// in this way, because the change is in the engine's log.
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

  /// Sets the deadline `end`, at which the process exits with kTryAgain (75). Called at most once.
  void set(Time end);
  /// Cancels the deadline, because the process ends by itself. Joins the thread.
  void cancel();

 private:
  void wait(Time end);

  std::mutex mutex_;
  std::condition_variable cancelled_now_;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace c10dd::daemon
