// SPDX-License-Identifier: Apache-2.0
// Lane: runs the collectives of one group on a thread of its own, because nobody gets a thread out
// of a blocking call of MPI. The caller learns of a time-out or abort at once.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/backend.h"
#include "collectives/mpi/runtime.h"
#include "collectives/timer_thread.h"

namespace c10dd::collectives::mpi {

/// Owns the communicator. Its thread starts with the first operation, and keeps the Lane alive. If
/// the group fails while an operation is inside MPI, the thread and the tensors of the operation
/// are kept until the operation returns from MPI, which may be never. Thread-safe.
class Lane final : public std::enable_shared_from_this<Lane>, private TimerThread::Task {
 public:
  Lane(Runtime& runtime, MPI_Comm comm);
  ~Lane();

  /// Calls `listener` once, when fail() or an operation has ended the group. Called before the
  /// first operation.
  void on_failure(std::function<void(const Failure&)> listener) { listener_ = std::move(listener); }

  /// Starts a collective, see Backend::start(). The one before it has ended, but the thread may
  /// still be in its completion: the collective has begun when the thread comes to it.
  void start(const Operation& operation, Completion& completion);

  /// Ends the operation that was started, and all later ones, with this failure, or with the one
  /// with which the group has failed.
  void fail(Failure reason);

  /// Ends the thread, and frees the communicator. Waits for the thread unless an operation is
  /// inside MPI, or a completion that the thread calls has destroyed the group. Called once.
  void close();

 private:
  using Clock = TimerThread::Clock;

  Clock::time_point on_time(Clock::time_point now) noexcept override;
  void work();
  void run_one(std::unique_lock<std::mutex>& lock);
  void fail_locked(std::unique_lock<std::mutex>& lock, Failure reason);
  void end_failed(std::unique_lock<std::mutex>& lock);
  void free_locked();

  Runtime& runtime_;
  MPI_Comm comm_;
  std::function<void(const Failure&)> listener_;
  std::mutex mutex_;                  // guards all members below
  std::condition_variable changed_;   // wakes the thread, and close()
  Operation operation_;               // a copy, which shares the owners of the tensors
  Completion* completion_ = nullptr;  // of the operation that has not ended, or null
  std::optional<Failure> dead_;
  bool inside_ = false;     // the thread runs an operation
  std::thread::id thread_;  // the default: there is none
  bool stop_ = false;
};

}  // namespace c10dd::collectives::mpi
