// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/freeing_thread.h"

#include <system_error>
#include <thread>
#include <utility>

#include "client/internal/per_process.h"

namespace c10dd::collectives::nccl {

FreeingThread& FreeingThread::instance() { return client::of_this_process<FreeingThread>(); }

void FreeingThread::run(Task task) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  if (has_thread_) return;
  try {
    std::thread([this] { run_all(); }).detach();
    has_thread_ = true;
  } catch (const std::system_error&) {
    return;  // the memory is freed later
  }
}

void FreeingThread::run_all() {
  std::vector<Task> tasks;
  while (true) {
    tasks.clear();
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(waiting_);
      has_thread_ = !tasks.empty();
      if (!has_thread_) return;
    }
    for (Task& task : tasks) {
      task();
      task = {};
    }
  }
}

}  // namespace c10dd::collectives::nccl
