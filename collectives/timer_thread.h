// SPDX-License-Identifier: Apache-2.0
// TimerThread: one thread that runs the timed tasks of all process groups of this process. A
// backend module has a TimerThread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace c10dd::collectives {

/// Runs tasks when they are due. The thread starts when it is first needed, and ends when there are
/// no tasks. Thread-safe.
class TimerThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// Something to do at certain times.
  class Task {
   public:
    /// Does what is due, and returns when to be called next; time_point::max() means only after
    /// wake(). Called on the timer thread, one call at a time. Must not block: it delays all
    /// others.
    virtual Clock::time_point on_time(Clock::time_point now) noexcept = 0;

   protected:
    ~Task() = default;
  };

  /// Returns the timer thread of this process. In a forked child, returns a new one.
  static TimerThread& instance();

  /// Adds a task, which is called when wake() says so. It must be removed before it is destroyed.
  void add(Task& task);

  /// Removes a task. If the task is running, blocks until it has returned; but a task may remove
  /// itself, and be destroyed, while it runs.
  void remove(Task& task);

  /// Starts the thread, so that wake() cannot fail until the caller's task is removed. Throws
  /// std::system_error if the thread cannot start.
  void require_thread();

  /// Calls the task at `when`, or earlier if that was already agreed. Throws as require_thread().
  void wake(Task& task, Clock::time_point when);

 private:
  struct Entry {
    Task* task;
    Clock::time_point due = Clock::time_point::max();
  };

  void run();
  void require_thread_locked();
  Entry* find_locked(const Task& task);
  Entry* first_locked();

  std::mutex mutex_;
  std::condition_variable changed_;  // a task or its time has changed, or a task has returned
  std::vector<Entry> entries_;
  const Task* running_ = nullptr;
  std::atomic<bool> has_thread_ = false;  // written under the lock
  std::thread::id thread_;
  Clock::time_point sleeps_until_ = Clock::time_point::min();  // min: the thread does not sleep
};

}  // namespace c10dd::collectives
