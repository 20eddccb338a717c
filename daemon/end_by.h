// SPDX-License-Identifier: Apache-2.0
// Ends the process at a time, whatever its other threads wait for: a disk that hangs must not hold
// a daemon that was told to stop. What was acknowledged is in the engine's log.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace c10dd::daemon {

class EndBy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EndBy() = default;
  ~EndBy() { cancel(); }
  EndBy(const EndBy&) = delete;
  EndBy& operator=(const EndBy&) = delete;

  /// Once.
  void set(Time end);
  /// The process ends by itself.
  void cancel();

 private:
  void wait(Time end);

  std::mutex mutex_;
  std::condition_variable cancelled_now_;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace c10dd::daemon
