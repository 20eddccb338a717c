// SPDX-License-Identifier: Apache-2.0
// An event loop of one thread, as the hosts of jobs see it. The daemon's is Asio's, the simulator's
// has messages that come late.
#pragma once

#include <chrono>
#include <functional>

namespace c10dd::core {

/// The process's own clock. Job time is made of it, see job_time.h.
using SteadyTime = std::chrono::steady_clock::time_point;

class HostLoop {
 public:
  virtual ~HostLoop() = default;

  /// Runs f on the loop, after what was posted there before. From any thread.
  virtual void post(std::function<void()> f) = 0;

  /// Runs f at once if the caller is on the loop, else posts it. From any thread.
  virtual void dispatch(std::function<void()> f) = 0;

  /// From the loop's thread.
  virtual SteadyTime now() const = 0;
};

}  // namespace c10dd::core
