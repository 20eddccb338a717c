// SPDX-License-Identifier: Apache-2.0
// Defines the interface of the event loop on which a host of jobs runs. Each loop has one thread.
// The daemon implements the interface with Asio, the simulator with delayed messages.
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

  /// If the caller is on the loop's thread, runs f at once; otherwise posts f.
  /// Thread-safe.
  virtual void dispatch(std::function<void()> f) = 0;

  /// Called on the loop's thread.
  virtual SteadyTime now() const = 0;

  /// As now(), by a clock that also counts the time for which the machine was suspended, and that
  /// is read at the call. Only for leases: other machines do not wait.
  virtual SteadyTime boot_now() const { return now(); }
};

}  // namespace c10dd::core
