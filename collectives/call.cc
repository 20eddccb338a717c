// SPDX-License-Identifier: Apache-2.0
// Implements the end of an operation: stores the outcome, wakes the waiters and calls the
// callbacks.
#include "collectives/call.h"

#include "client/internal/throw_failure.h"
#include "collectives/call_queue.h"
#include "collectives/issuing_threads.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

/// Ends the use of a tensor. Keeps its type and count, which error texts need.
void let_go(Tensor& tensor) {
  tensor.data = nullptr;
  tensor.owner.reset();
}

}  // namespace

void Call::require_home() const { home_.require("work", "open another process group"); }

Work::Status Call::status() const {
  require_home();
  return status_.load(std::memory_order_acquire);
}

bool Call::test() {
  require_home();
  if (!has_ended()) queue_->progress();
  return has_ended();
}

void Call::wait(void* stream) {
  require_home();
  await(std::nullopt, true);
  if (has_ended()) return throw_unless_done();
  const Result<void> ordered = device_end_->order(stream);
  if (!ordered) client::throw_failure(ordered.error());
}

void Call::wait_on_host() {
  require_home();
  await(std::nullopt);
  throw_unless_done();
}

void Call::wait(Duration limit) {
  require_home();
  if (!await(Clock::now() + limit)) {
    throw TimedOut(
        format("waited {} for {} {}, but it is still running or queued; its own time-out "
               "of {} counts from its start",
               human(limit), name_of(info.operation.collective), sequence(),
               human(info.operation.timeout)),
        {});
  }
  throw_unless_done();
}

// Blocks until the operation has ended, or until `until`; with `or_enqueued`, at most until the
// operation is on a stream of a device. Returns whether it has ended or is on a stream.
bool Call::await(std::optional<Clock::time_point> until, bool or_enqueued) {
  const auto ended = [&] { return has_ended() || (or_enqueued && enqueued_.load()); };
  if (ended()) return true;
  // A thread that waits with a limit may issue operations afterwards, whatever this one does.
  std::optional<WaitingForEnd> waiting;
  if (!until) waiting.emplace();
  const bool drives = queue_->needs_progress();
  ++waiters_;
  while (!ended() && !(until && Clock::now() >= *until)) {
    if (drives) queue_->progress();
    std::unique_lock lock(mutex_);
    if (drives) {
      ended_.wait_for(lock, CallQueue::kProgressPeriod, ended);
    } else if (until) {
      ended_.wait_until(lock, *until, ended);
    } else {
      ended_.wait(lock, ended);
    }
  }
  --waiters_;
  return ended();
}

void Call::on_end(std::function<void(Work&)> callback) {
  require_home();
  if (!callback) throw InvalidArgument("on_end: the callback is empty");
  {
    const std::lock_guard lock(mutex_);
    has_callbacks_.store(true);
    if (users_.load() > 0) return callbacks_.push_back(std::move(callback));
  }
  callback(*this);
}

void Call::abort(const std::string& reason) {
  require_home();
  queue_->abort(failure(Code::aborted, reason), true);
}

Code Call::code() const {
  require_home();
  return has_ended() ? failure_.code : Code::ok;
}

std::string Call::error() const {
  require_home();
  return has_ended() ? failure_.detail : std::string();
}

std::vector<Missing> Call::failed_ranks() const {
  require_home();
  return has_ended() ? client::missing_of(failure_.missing) : std::vector<Missing>();
}

Received Call::received() const {
  require_home();
  return status_.load(std::memory_order_acquire) == Status::done ? received_ : Received{};
}

Duration Call::duration() const {
  require_home();
  const Status status = status_.load(std::memory_order_acquire);
  if (status == Status::pending || status == Status::abandoned) return Duration{0};
  return info.finished - info.started;
}

void Call::complete(Result<void> result) noexcept { queue_->complete(*this, std::move(result)); }

void Call::complete_message(Result<Received> result) noexcept {
  if (!result) return queue_->complete(*this, result.error());
  received_ = *result;
  // Hooks count what has arrived, not the room for it.
  if (info.operation.collective == Collective::recv) info.operation.output.count = result->count;
  queue_->complete(*this, {});
}

void Call::enqueued(std::shared_ptr<DeviceEnd> end) noexcept {
  device_end_ = std::move(end);
  enqueued_.store(true);
  wake_waiters();
}

void Call::begun() noexcept { queue_->begin(*this, Clock::now()); }

void Call::end(Status status, Failure reason) {
  // Releases the tensors before any wait() returns, so that a Work that is kept after wait() does
  // not keep their memory alive.
  let_go(info.operation.output);
  let_go(info.operation.input);
  info.operation.outputs.clear();
  info.operation.inputs.clear();
  C10DD_ASSERT(status_ == Status::pending && status != Status::pending);
  if (status != Status::done) failure_ = std::move(reason);
  status_.store(status);
  wake_waiters();
}

// Called after status_ or enqueued_ was stored. All orders are sequentially consistent: either this
// thread sees the waiter, or the waiter sees the new value. Taking the lock makes sure that the
// waiter does not miss the notification.
void Call::wake_waiters() {
  if (waiters_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  ended_.notify_all();
}

// All orders of users_ and has_callbacks_ are sequentially consistent: either this thread sees that
// there may be callbacks, or on_end() sees that the call was released.
void Call::release(int parties) {
  if (users_.fetch_sub(parties) > parties) return;
  const std::shared_ptr<Call> alive = std::move(self);
  if (!has_callbacks_.load()) return;
  std::vector<std::function<void(Work&)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    callbacks = std::move(callbacks_);
  }
  for (const auto& callback : callbacks) callback(*this);
}

void Call::throw_unless_done() const {
  if (status_.load(std::memory_order_acquire) != Status::done) client::throw_failure(failure_);
}

}  // namespace c10dd::collectives
