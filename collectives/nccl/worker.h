// SPDX-License-Identifier: Apache-2.0
// Worker: the one thread of this process that calls NCCL. It issues operations, and looks whether
// operations have ended and whether communicators have failed. Only the end of a communicator has
// threads of its own, see retirement.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "protocol/error.h"

namespace c10dd::collectives::nccl {

/// The thread starts with the first task, and ends when there was none for a second. Thread-safe.
class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  /// Something that the thread does in steps.
  class Task {
   public:
    virtual ~Task() = default;

    enum class Step {
      ended,     ///< there is nothing to do before the next wake()
      waits,     ///< nothing has changed
      advanced,  ///< something has changed
    };

    /// Issues the next operation, unless it must wait. Called on the thread, once for each wake()
    /// and in their order: so one communicator's operations are issued in the program's order, and
    /// those of several, too, unless a communicator must wait. Do not rely on an order between
    /// groups: with CUDA_DEVICE_MAX_CONNECTIONS=1, where streams share a queue of the device,
    /// operations of two groups that ranks issue in different orders can wait for each other.
    virtual void issue() {}

    /// Looks at what was issued. Does not block. Called on the thread.
    virtual Step poll(Clock::time_point now) = 0;
  };

  static Worker& instance();

  /// Fails if called on the thread, which would wait for itself when it waits for a communicator.
  /// `what`: such as "a process group cannot be opened".
  static Result<void> require_other_thread(const char* what);

  /// Lets the thread call issue() of the task once, and then poll() until that has returned
  /// `ended`. Fails if the thread cannot be created; then it does so after the next wake() that
  /// succeeds.
  Result<void> wake(std::shared_ptr<Task> task);

 private:
  void run();
  bool take_woken(std::vector<std::shared_ptr<Task>>& active);

  std::mutex mutex_;
  std::condition_variable changed_;  // woken_ is not empty
  std::vector<std::shared_ptr<Task>> woken_;
  bool has_thread_ = false;
};

}  // namespace c10dd::collectives::nccl
