// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/lane.h"

#include <thread>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/mpi/operations.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives::mpi {

Lane::Lane(Runtime& runtime, MPI_Comm comm) : runtime_(runtime), comm_(comm) {
  TimerThread::instance().add(*this);
}

Lane::~Lane() { TimerThread::instance().remove(*this); }

void Lane::start(const Operation& operation, Completion& completion) {
  TimerThread::instance().require_thread();
  std::unique_lock lock(mutex_);
  if (dead_) {
    const Failure reason = *dead_;
    lock.unlock();
    return completion.complete(reason);
  }
  if (thread_ == std::thread::id()) {
    std::thread thread([self = shared_from_this()] { self->work(); });
    thread_ = thread.get_id();
    thread.detach();
  }
  operation_ = operation;
  completion_ = &completion;
  changed_.notify_all();
  const Clock::time_point deadline = operation.deadline;
  lock.unlock();  // from now on the operation may end
  TimerThread::instance().wake(*this, deadline);
}

void Lane::fail(Failure reason) {
  std::unique_lock lock(mutex_);
  fail_locked(lock, std::move(reason));
}

/// As fail(). Releases the lock.
void Lane::fail_locked(std::unique_lock<std::mutex>& lock, Failure reason) {
  const auto self = weak_from_this().lock();  // a callback may destroy the group
  if (!dead_) {
    if (inside_) {
      runtime_.abandon();
      reason.detail += format("; {}", Runtime::kMustExit);
    }
    dead_ = reason;
    changed_.notify_all();
    lock.unlock();
    listener_(reason);
    lock.lock();
  }
  end_failed(lock);
}

/// Ends the operation, unless it has ended, with the failure of the group. Releases the lock.
void Lane::end_failed(std::unique_lock<std::mutex>& lock) {
  Completion* const pending = std::exchange(completion_, nullptr);
  Failure reason = *dead_;
  lock.unlock();
  if (pending != nullptr) pending->complete(std::move(reason));
}

void Lane::close() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  if (thread_ == std::this_thread::get_id()) return free_locked();
  changed_.wait(lock, [&] { return thread_ == std::thread::id() || (dead_ && inside_); });
  if (thread_ == std::thread::id()) free_locked();
}

/// Frees the communicator, unless the group has failed: a new communicator with its number could
/// get messages of the old one.
void Lane::free_locked() {
  if (dead_ || !runtime_.enter()) return;
  MPI_Comm_free(&comm_);
  runtime_.leave();
}

TimerThread::Clock::time_point Lane::on_time(Clock::time_point now) noexcept {
  std::unique_lock lock(mutex_);
  if (completion_ == nullptr) return Clock::time_point::max();
  if (operation_.deadline > now) return operation_.deadline;
  // Keeps the lock, because the next operation could start in between.
  fail_locked(lock, failure(Code::timed_out, "{} timed out after {}", text_of(operation_),
                            human(operation_.timeout)));
  return Clock::time_point::max();
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || dead_ || completion_ != nullptr; });
    if (dead_ || completion_ == nullptr) break;
    run_one(lock);
  }
  operation_ = {};
  thread_ = {};
  changed_.notify_all();
}

void Lane::run_one(std::unique_lock<std::mutex>& lock) {
  inside_ = true;
  completion_->begun();
  lock.unlock();
  Result<void> result = failure(Code::closed, "mpi: MPI was finalized in this process");
  if (runtime_.enter()) {
    result = run(operation_, comm_);
    runtime_.leave();
  }
  lock.lock();
  inside_ = false;
  if (dead_) {  // during the operation, whose completion was called
    runtime_.return_abandoned();
    return changed_.notify_all();
  }
  operation_ = {};
  if (result) {
    Completion* const completion = std::exchange(completion_, nullptr);
    lock.unlock();
    completion->complete({});
  } else {
    dead_ = result.error();
    lock.unlock();
    listener_(result.error());  // a callback in it may end the operation by fail()
    lock.lock();
    end_failed(lock);
  }
  lock.lock();
}

}  // namespace c10dd::collectives::mpi
