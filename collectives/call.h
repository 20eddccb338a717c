// SPDX-License-Identifier: Apache-2.0
// Call: the Work of one operation of a ProcessGroup.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/fork_guard.h"
#include "collectives/backend.h"
#include "collectives/hooks.h"
#include "collectives/work.h"
#include "protocol/error.h"

namespace c10dd::collectives {

class CallQueue;

/// One operation: its arguments, tensors and outcome. The CallQueue runs it and ends it exactly
/// once, and any thread may wait for it.
class Call final : public Work, public Completion {
 public:
  Call(std::shared_ptr<CallQueue> queue, client::HomeProcess home, Operation&& operation)
      : queue_(std::move(queue)), home_(home), stream_(operation.common().stream) {
    info.operation = std::move(operation);
  }

  CollectiveCall info;  ///< written by the issuing thread, then by the threads that run the call

  // These fields belong to the queue, which guards them by its lock.
  std::shared_ptr<Call> next;     ///< the following call in the queue
  bool on_callers_thread = true;  ///< false: the worker runs the call
  bool has_waited = false;        ///< it was queued before it was started
  std::condition_variable turn;   ///< wakes the caller's thread when its turn may have come
  std::shared_ptr<Call> self;     ///< keeps the call alive while the backend has a reference to it

  Status status() const override;
  bool test() override;
  void wait() override { wait(stream_); }
  void wait(void* stream) override;
  void wait_on_host() override;
  void wait(Duration limit) override;
  void on_end(std::function<void(Work&)> callback) override;
  void abort(const std::string& reason) override;
  Code code() const override;
  std::string error() const override;
  std::vector<Missing> failed_ranks() const override;
  Received received() const override;
  Duration duration() const override;
  std::uint64_t sequence() const override { return info.operation.sequence; }

  void complete(Result<void> result) noexcept override;
  void complete_message(Result<Received> result) noexcept override;
  void enqueued(std::shared_ptr<DeviceEnd> end) noexcept override;
  void begun() noexcept override;

  /// Blocks until the operation has ended or is on a stream of a device. Does not throw if it has
  /// failed.
  void await_issued() { await(std::nullopt, true); }

  /// Releases the tensors, stores the outcome and wakes the waiters. `reason` is ignored if the
  /// status is done.
  void end(Status status, Failure reason);

  /// Two parties release a call: the one that has ended it, and the thread that has started it.
  /// `parties`: for how many of them this is called. The last one calls the callbacks. The Call may
  /// be destroyed afterwards.
  void release(int parties);

 private:
  using Clock = CollectiveCall::Clock;

  bool has_ended() const { return status_.load() != Status::pending; }
  bool await(std::optional<Clock::time_point> until, bool or_enqueued = false);
  void wake_waiters();
  void throw_unless_done() const;
  void require_home() const;

  const std::shared_ptr<CallQueue> queue_;
  const client::HomeProcess home_;
  void* const stream_;  // of the tensors
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::atomic<Status> status_ = Status::pending;
  std::atomic<bool> enqueued_ = false;                 // device_end_ is set
  std::atomic<int> waiters_ = 0;                       // threads in await()
  std::shared_ptr<DeviceEnd> device_end_;              // set before enqueued_
  Failure failure_ = failure(Code::ok, "");            // set before the status
  Received received_;                                  // set before end()
  std::vector<std::function<void(Work&)>> callbacks_;  // guarded by mutex_
  std::atomic<bool> has_callbacks_ = false;            // somebody has called on_end()
  std::atomic<int> users_ = 2;                         // parties that have not released the call
};

}  // namespace c10dd::collectives
