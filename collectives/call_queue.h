// SPDX-License-Identifier: Apache-2.0
// CallQueue: runs the operations of one process group in the order in which they were issued, on
// the threads of their callers or on a worker thread. Starts sends and receives at once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/internal/fork_guard.h"
#include "collectives/backend.h"
#include "collectives/call.h"
#include "collectives/call_memory.h"
#include "collectives/first_failure.h"
#include "collectives/process_group.h"

namespace c10dd::collectives {

/// Owns the backend of a group until close(). Shared by the group, by its calls and by its worker
/// thread. Thread-safe.
class CallQueue : public std::enable_shared_from_this<CallQueue> {
 public:
  using Clock = CollectiveCall::Clock;

  CallQueue(World world, GroupOptions options, std::shared_ptr<Backend> backend,
            GroupContext context);
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;
  ~CallQueue() { memory_->release(); }

  /// Issues an operation with valid arguments. Returns its work, which has ended unless
  /// `async` is true. Does not throw if the operation fails.
  WorkPtr issue(Operation&& operation, bool async);

  /// Fails all operations that have not ended, and all later ones, unless the group has already
  /// failed. Does not wait for the running operation. See FirstFailure::abort().
  void abort(const Failure& reason, bool says_all);

  /// Returns why no further operation can succeed, or nothing.
  std::optional<Failure> unusable();

  /// Abandons all later operations. Blocks until all earlier ones have ended.
  void close();
  /// As close(), but aborts operations that have not ended. Then ends the worker thread and
  /// destroys the backend. Called once, possibly by the worker thread.
  void destroy();

  /// Notes that the backend has begun with a call. Called by Call::begun().
  void begin(Call& call, Clock::time_point at) noexcept;

  /// Ends a call that was started, or one that has not begun. Called by Call::complete().
  void complete(Call& call, const Result<void>& result) noexcept;

  /// How long a thread sleeps between two calls of progress(), if the backend needs them.
  static constexpr auto kProgressPeriod = std::chrono::microseconds(50);
  bool needs_progress() const { return traits_.needs_progress; }
  void progress();

  const World& world() const { return world_; }
  const GroupOptions& options() const { return options_; }
  /// Returns null after destroy().
  std::shared_ptr<Backend> backend() const;

 private:
  bool enqueue(const std::shared_ptr<Call>& call, bool at_once);
  bool enqueue_message(Call& call);
  void number_locked(Call& call, std::uint64_t& next);
  bool accepts_locked() const;
  bool may_start_locked() const;
  void start(const std::shared_ptr<Call>& call);
  void start_message(const std::shared_ptr<Call>& call);
  void run(Call& call);
  bool idle_locked() const;
  void abandon(Call& call);
  void finish(Call& call, const Result<void>& result) noexcept;
  void pass_turn_locked();
  void push_locked(const std::shared_ptr<Call>& call);
  std::shared_ptr<Call> pop_locked();
  void require_worker_locked();
  void work();
  bool run_first(std::unique_lock<std::mutex>& lock);
  void await_idle(std::unique_lock<std::mutex>& lock);
  void wait_locked(std::unique_lock<std::mutex>& lock, std::condition_variable& changed);
  std::vector<std::shared_ptr<Call>> take_ended_locked();
  static void release_all(const std::vector<std::shared_ptr<Call>>& ended);

  const World world_;
  const GroupOptions options_;
  const Traits traits_;
  const client::HomeProcess home_;
  CallMemory* const memory_ = CallMemory::make();
  FirstFailure failure_;
  std::atomic<std::size_t> unfinished_ = 0;  // calls that were accepted and are pending

  mutable std::mutex mutex_;  // guards all members below
  std::shared_ptr<Backend> backend_;
  std::condition_variable work_changed_;  // wakes the worker
  std::condition_variable idle_;          // wakes close()
  std::shared_ptr<Call> first_;           // the calls that wait for their turn
  Call* last_ = nullptr;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_message_ = 0;            // sequence of the next send or recv
  bool starting_ = false;                     // a thread is in start()
  std::size_t in_flight_ = 0;                 // calls that have begun and not ended
  std::size_t messages_ = 0;                  // sends and receives that have not ended
  std::vector<std::shared_ptr<Call>> ended_;  // whose callbacks wait for the last operation
  bool closed_ = false;                       // no further call is accepted
  bool stop_ = false;                         // the worker must end
  bool worker_waits_ = false;                 // the worker must be woken
  std::thread worker_;                        // starts with the first call that needs it
};

}  // namespace c10dd::collectives
