// SPDX-License-Identifier: Apache-2.0
// FreeingThread: the one thread of this process that frees memory of devices, because that waits
// for all operations of the device, also for those that hang. On the worker's thread it could wait
// for an operation of another rank that waits for the worker, and no deadline would be noticed.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace c10dd::collectives::nccl {

/// The thread starts with the first task, and ends when there is none. Thread-safe.
class FreeingThread {
 public:
  using Task = std::function<void()>;

  static FreeingThread& instance();

  /// Calls `task` on the thread, in the order of these calls, and destroys it there. If the thread
  /// cannot be created, the next run() tries again. Does not block.
  void run(Task task) noexcept;

 private:
  void run_all();

  std::mutex mutex_;
  std::vector<Task> waiting_;
  bool has_thread_ = false;
};

}  // namespace c10dd::collectives::nccl
