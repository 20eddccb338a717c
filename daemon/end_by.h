// SPDX-License-Identifier: Apache-2.0
// Ends the process at a given time, even if a hanging disk blocks other threads. Otherwise such a
// disk could keep the daemon from stopping. If the durability is `fsync` or `os`, no acknowledged
// change is lost, because each acknowledged change is in the engine's log.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace c10dd::daemon {

/// A deadline of the process. A thread that belongs to this object waits for the deadline.
class EndBy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EndBy() = default;
  ~EndBy() { cancel(); }
  EndBy(const EndBy&) = delete;
  EndBy& operator=(const EndBy&) = delete;

  /// Sets the deadline `end`, at which the process exits with kTryAgain (75). If no thread can be
  /// started, SIGALRM ends the process instead, one to two seconds later. Called at most once.
  void set(Time end);
  /// Cancels the deadline and joins the thread. Called when the process stops in time.
  void cancel();

 private:
  void wait(Time end);

  std::mutex mutex_;
  std::condition_variable cancelled_now_;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace c10dd::daemon
