// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/worker.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "client/internal/per_process.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {
namespace {

constexpr auto kIdle = std::chrono::seconds(1);
constexpr auto kPauseMin = std::chrono::microseconds(10);
constexpr auto kPauseMax = std::chrono::microseconds(500);

/// The thread looks again after an eighth of the time for which nothing has changed: so it is late
/// by at most an eighth, and long operations cost little.
Worker::Clock::duration pause_after(Worker::Clock::duration unchanged) {
  return std::clamp<Worker::Clock::duration>(unchanged / 8, kPauseMin, kPauseMax);
}

thread_local bool is_worker = false;

}  // namespace

Worker& Worker::instance() { return client::of_this_process<Worker>(); }

Result<void> Worker::require_other_thread(const char* what) {
  if (!is_worker) return {};
  return failure(
      Code::invalid_argument,
      "nccl: {} in a Work callback, because the thread of the callback also connects the "
      "ranks; use another thread",
      what);
}

Result<void> Worker::wake(std::shared_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  woken_.push_back(std::move(task));
  try {
    if (!has_thread_) std::thread([this] { run(); }).detach();
  } catch (const std::system_error& error) {
    return failure(
        Code::unavailable,
        "nccl: cannot create the thread that calls NCCL: {}; check the limits of the process, "
        "such as ulimit -u",
        error.what());
  }
  has_thread_ = true;
  changed_.notify_all();
  return {};
}

void Worker::run() {
  is_worker = true;
  std::vector<std::shared_ptr<Task>> active;
  Clock::time_point changed = Clock::now();
  while (take_woken(active)) {
    const Clock::time_point now = Clock::now();
    std::erase_if(active, [&](const std::shared_ptr<Task>& task) {
      const Task::Step step = task->poll(now);
      if (step != Task::Step::waits) changed = now;
      return step == Task::Step::ended;
    });
    if (active.empty()) continue;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause_after(now - changed), [&] { return !woken_.empty(); });
  }
}

// Waits for tasks if there are none. Returns false if the thread must end.
bool Worker::take_woken(std::vector<std::shared_ptr<Task>>& active) {
  std::vector<std::shared_ptr<Task>> woken;
  {
    std::unique_lock lock(mutex_);
    if (active.empty()) changed_.wait_for(lock, kIdle, [&] { return !woken_.empty(); });
    woken.swap(woken_);
    has_thread_ = !active.empty() || !woken.empty();
    if (!has_thread_) return false;
  }
  for (std::shared_ptr<Task>& task : woken) {
    task->issue();
    if (std::ranges::count(active, task) == 0) active.push_back(std::move(task));
  }
  return true;
}

}  // namespace c10dd::collectives::nccl
