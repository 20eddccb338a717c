// SPDX-License-Identifier: Apache-2.0
// There are few tasks, so the next one is found by looking at all of them.
#include "collectives/timer_thread.h"

#include <algorithm>
#include <thread>

#include "client/internal/per_process.h"

namespace c10dd::collectives {

TimerThread& TimerThread::instance() { return client::of_this_process<TimerThread>(); }

void TimerThread::add(Task& task) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({&task});
}

void TimerThread::remove(Task& task) {
  std::unique_lock lock(mutex_);
  const bool on_timer = running_ != nullptr && std::this_thread::get_id() == thread_;
  if (!on_timer) changed_.wait(lock, [&] { return running_ != &task; });
  std::erase_if(entries_, [&](const Entry& entry) { return entry.task == &task; });
  changed_.notify_all();
}

void TimerThread::wake(Task& task, Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = find_locked(task);
  if (entry == nullptr || entry->due <= when) return;
  require_thread_locked();
  entry->due = when;
  if (when < sleeps_until_) changed_.notify_all();
}

void TimerThread::require_thread() {
  if (has_thread_) return;
  const std::lock_guard lock(mutex_);
  require_thread_locked();
}

void TimerThread::require_thread_locked() {
  if (has_thread_ || entries_.empty()) return;
  std::thread([this] { run(); }).detach();
  has_thread_ = true;
}

TimerThread::Entry* TimerThread::find_locked(const Task& task) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.task == &task; });
  return found == entries_.end() ? nullptr : &*found;
}

TimerThread::Entry* TimerThread::first_locked() {
  return &*std::min_element(entries_.begin(), entries_.end(),
                            [](const Entry& a, const Entry& b) { return a.due < b.due; });
}

void TimerThread::run() {
  std::unique_lock lock(mutex_);
  thread_ = std::this_thread::get_id();
  while (!entries_.empty()) {
    Entry& first = *first_locked();
    const auto now = Clock::now();
    const auto due = first.due;  // a copy: the entries may move during the wait
    if (due > now) {
      sleeps_until_ = due;
      if (due == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, due);
      }
      sleeps_until_ = Clock::time_point::min();
      continue;
    }
    Task& task = *first.task;
    first.due = Clock::time_point::max();
    running_ = &task;
    lock.unlock();
    const auto next = task.on_time(now);
    lock.lock();
    running_ = nullptr;
    // The task cannot have been removed meanwhile, and wake() may have set an earlier time.
    if (Entry* const entry = find_locked(task)) entry->due = std::min(entry->due, next);
    changed_.notify_all();
  }
  has_thread_ = false;
}

}  // namespace c10dd::collectives
