// SPDX-License-Identifier: Apache-2.0
// An event loop of one thread, as the hosts of jobs see it. The daemon implements it with Asio, the
// simulator with messages that arrive late.
#pragma once

#include <chrono>
#include <functional>

namespace c10dd::core {

/// The clock of the process. Job time is derived from it, see job_time.h.
using SteadyTime = std::chrono::steady_clock::time_point;

class HostLoop {
 public:
  virtual ~HostLoop() = default;

  /// Runs f on the loop, after everything that was posted before.
  /// Thread-safe.
  virtual void post(std::function<void()> f) = 0;

  /// Runs f at once if the caller is on the loop's thread, else posts it.
  /// Thread-safe.
  virtual void dispatch(std::function<void()> f) = 0;

  /// Called on the loop's thread.
  virtual SteadyTime now() const = 0;
};

}  // namespace c10dd::core
