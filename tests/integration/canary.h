// SPDX-License-Identifier: Apache-2.0
// Tells a machine that stood still, or a process that got no processor, from a program that is
// slow.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace c10dd::test {

/// A thread that wakes again and again, and remembers how late it was at the worst.
class Canary {
 public:
  /// With the path of a new file, it also syncs this file each time: the disk may stand still, too.
  explicit Canary(const std::string& file = {})
      : file_(file.empty() ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)),
        thread_([this] { sing(); }) {}
  ~Canary() {
    stop_ = true;
    thread_.join();
    if (file_ >= 0) ::close(file_);
  }
  Canary(const Canary&) = delete;

  /// Up to now, with a gap that the thread has still to wake from.
  std::chrono::nanoseconds longest_gap() const {
    return std::max<std::chrono::nanoseconds>(longest_, Clock::now() - due_.load());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kNap{20};

  void sing() {
    while (!stop_) {
      std::this_thread::sleep_until(due_.load());
      if (file_ >= 0 && ::write(file_, "x", 1) == 1) ::fdatasync(file_);
      const Clock::time_point now = Clock::now();
      longest_ = std::max<std::chrono::nanoseconds>(longest_, now - due_.load());
      due_ = now + kNap;
    }
  }

  const int file_;  // -1: none
  std::atomic<bool> stop_ = false;
  std::atomic<std::chrono::nanoseconds> longest_ = std::chrono::nanoseconds(0);
  std::atomic<Clock::time_point> due_ = Clock::now() + kNap;
  std::thread thread_;  // last: it uses the others
};

}  // namespace c10dd::test
