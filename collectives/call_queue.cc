// SPDX-License-Identifier: Apache-2.0
// A call has its turn when it is the first of the queue, no thread is in Backend::start(), and the
// backend accepts another operation. Then its caller's thread, if that thread waits for the call
// and the backend allows it, or else the worker starts the call.
#include "collectives/call_queue.h"

#include <optional>
#include <system_error>
#include <utility>

#include "client/internal/throw_failure.h"
#include "collectives/issuing_threads.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

// The call that this thread is starting; null if there is none, or if it has already ended.
thread_local Call* starting_here = nullptr;

}  // namespace

CallQueue::CallQueue(World world, GroupOptions options, std::shared_ptr<Backend> backend,
                     GroupContext context)
    : world_(std::move(world)),
      options_(std::move(options)),
      traits_(backend->traits()),
      failure_(world_, std::move(context)),
      backend_(std::move(backend)) {
  for (const auto& hook : options_.hooks) hook->opened(world_);
}

WorkPtr CallQueue::issue(Operation&& operation, bool async) {
  note_issuing_thread();
  // A synchronous operation may run on this thread, which then waits in the backend.
  std::optional<WaitingForEnd> waiting;
  if (!async) waiting.emplace();
  const auto call = std::allocate_shared<Call>(CallAllocator<Call>(memory_, home_),
                                               shared_from_this(), home_, std::move(operation));
  if (info_of(call->info.operation.collective).message) {
    enqueue_message(*call) ? start_message(call) : abandon(*call);
  } else {
    call->on_callers_thread = !async && traits_.on_callers_thread;
    const bool at_once =
        async && traits_.on_callers_thread && backend_->starts_at_once(call->info.operation);
    if (!enqueue(call, at_once)) {
      abandon(*call);
    } else if (call->on_callers_thread) {
      start(call);
    }
  }
  if (!async) call->await_issued();
  return call;
}

// Gives the call its sequence. Returns false if the call must be abandoned. Otherwise the call
// waits in the queue for the worker or, if the caller's thread runs it, has its turn. `at_once`:
// the caller's thread runs it if it need not wait for its turn.
bool CallQueue::enqueue(const std::shared_ptr<Call>& call, bool at_once) {
  std::unique_lock lock(mutex_);
  if (at_once && !first_ && may_start_locked()) call->on_callers_thread = true;
  if (!call->on_callers_thread) require_worker_locked();
  number_locked(*call, next_sequence_);
  if (!accepts_locked()) return false;
  ++unfinished_;
  if (!call->on_callers_thread) {
    call->has_waited = true;
    push_locked(call);
    if (worker_waits_ && first_ == call) work_changed_.notify_one();
    return true;
  }
  if (first_ || !may_start_locked()) {
    push_locked(call);
    call->has_waited = true;
    while (first_ != call || !may_start_locked()) wait_locked(lock, call->turn);
    pop_locked();
  }
  starting_ = true;
  ++in_flight_;
  return true;
}

// Gives a send or recv its sequence. Returns false if it must be abandoned.
bool CallQueue::enqueue_message(Call& call) {
  const std::lock_guard lock(mutex_);
  number_locked(call, next_message_);
  if (!accepts_locked()) return false;
  ++unfinished_;
  ++messages_;
  return true;
}

void CallQueue::number_locked(Call& call, std::uint64_t& next) {
  call.info.enqueued = Clock::now();
  call.info.operation.sequence = next++;
  for (const auto& hook : options_.hooks) hook->enqueued(call.info);
}

std::optional<Failure> CallQueue::unusable() {
  const std::lock_guard lock(mutex_);
  if (failure_.exists()) return failure_.get();
  if (!closed_) return std::nullopt;
  return failure(Code::closed, "process group \"{}\" was shut down", world().name);
}

bool CallQueue::accepts_locked() const { return !closed_ && !failure_.exists(); }

bool CallQueue::may_start_locked() const { return !starting_ && in_flight_ < traits_.in_flight; }

// Starts the call that has its turn, and lets the next call have its turn.
void CallQueue::start(const std::shared_ptr<Call>& call) {
  call->self = call;
  Call* const outer = std::exchange(starting_here, call.get());
  if (failure_.exists()) {
    complete(*call, failure_.get());
  } else {
    run(*call);
  }
  const bool ended = std::exchange(starting_here, outer) == nullptr;
  std::vector<std::shared_ptr<Call>> earlier;
  {
    const std::lock_guard lock(mutex_);
    starting_ = false;
    if (ended) --in_flight_;
    pass_turn_locked();
    if (ended && !ended_.empty()) earlier = take_ended_locked();
  }
  release_all(earlier);
  call->release(ended ? 2 : 1);
}

void CallQueue::start_message(const std::shared_ptr<Call>& call) {
  call->self = call;
  run(*call);
  call->release(1);
}

void CallQueue::run(Call& call) {
  CollectiveCall& info = call.info;
  // A call that has not waited for its turn needs one look at the clock only.
  info.started = call.has_waited ? Clock::now() : info.enqueued;
  info.operation.deadline = info.started + info.operation.timeout;
  for (const auto& hook : options_.hooks) hook->started(info);
  const OperationInfo& kind = info_of(info.operation.collective);
  const bool is_empty = info.operation.is_empty();
  if (is_empty || !traits_.tells_begin) begin(call, info.started);
  if (is_empty) {
    complete(call, {});
  } else {
    try {
      backend_->start(info.operation, call);
    } catch (const std::exception& error) {  // such as std::bad_alloc; nothing was started
      const Failure why = failure(Code::internal, "{}: {}", kind.name, error.what());
      const std::shared_ptr<Backend> backend = this->backend();
      kind.message ? call.complete_message(why) : complete(call, why);
      // The group has failed, so what it has started before must not run until its deadline.
      if (backend) backend->abort(why.detail);
    }
  }
}

void CallQueue::begin(Call& call, Clock::time_point at) noexcept {
  call.info.begun = at;
  for (const auto& hook : options_.hooks) hook->begun(call.info);
}

void CallQueue::complete(Call& call, const Result<void>& result) noexcept {
  finish(call, result);
  if (starting_here == &call) {
    starting_here = nullptr;  // start() does the rest
    return;
  }
  bool failed = false;
  std::vector<std::shared_ptr<Call>> ended;
  {
    const std::lock_guard lock(mutex_);
    --(info_of(call.info.operation.collective).message ? messages_ : in_flight_);
    pass_turn_locked();
    failed = failure_.exists();
    if (failed) {
      ended_.push_back(call.self);
      ended = take_ended_locked();
    }
  }
  if (!failed) return call.release(1);
  release_all(ended);
}

// Returns the ended calls whose callbacks may run now. After a failure of the group, the backend
// ends all operations, possibly one after the other on one thread. A callback may destroy the
// group, which waits for all of them: so callbacks come after the last one.
std::vector<std::shared_ptr<Call>> CallQueue::take_ended_locked() {
  const bool last = messages_ == 0 && in_flight_ == 0;
  if (failure_.exists() && !last) return {};
  return std::exchange(ended_, {});
}

void CallQueue::release_all(const std::vector<std::shared_ptr<Call>>& ended) {
  for (const auto& one : ended) one->release(1);
}

// Gives the outcome to the hooks, and then to the waiters.
void CallQueue::finish(Call& call, const Result<void>& result) noexcept {
  CollectiveCall& info = call.info;
  const bool was_started = info.started != Clock::time_point{};
  info.finished = Clock::now();
  Failure why;
  if (!result) {
    // A message of the wrong size leaves the group usable.
    const bool message = info_of(info.operation.collective).message;
    const bool settles = was_started && !(message && result.error().code == Code::size_mismatch);
    why = settles ? failure_.settle(info, result.error()) : result.error();
    info.outcome = why.code;
  }
  for (const auto& hook : options_.hooks) hook->finished(info);
  const auto failed = was_started ? Work::Status::failed : Work::Status::abandoned;
  --unfinished_;
  call.end(result ? Work::Status::done : failed, std::move(why));
}

// Ends a call that was refused: it is not in the queue, and no thread waits for its turn.
void CallQueue::abandon(Call& call) {
  Failure why = failure_.exists()
                    ? failure_.get()
                    : failure(Code::closed, "process group \"{}\" was shut down", world_.name);
  call.info.finished = Clock::now();
  call.info.outcome = why.code;
  for (const auto& hook : options_.hooks) hook->finished(call.info);
  call.end(Work::Status::abandoned, std::move(why));
  call.release(2);
}

void CallQueue::pass_turn_locked() {
  if (!first_) {
    if (idle_locked()) idle_.notify_all();
    return;
  }
  if (!may_start_locked()) return;
  if (first_->on_callers_thread) {
    first_->turn.notify_one();
  } else if (worker_waits_) {
    work_changed_.notify_one();
  }
}

bool CallQueue::idle_locked() const {
  return !first_ && !starting_ && in_flight_ == 0 && messages_ == 0;
}

void CallQueue::push_locked(const std::shared_ptr<Call>& call) {
  (last_ == nullptr ? first_ : last_->next) = call;
  last_ = call.get();
}

std::shared_ptr<Call> CallQueue::pop_locked() {
  std::shared_ptr<Call> call = std::move(first_);
  first_ = std::move(call->next);
  if (!first_) last_ = nullptr;
  return call;
}

void CallQueue::require_worker_locked() {
  if (worker_.joinable() || stop_) return;
  try {
    worker_ = std::thread([self = shared_from_this()] { self->work(); });
  } catch (const std::system_error& error) {
    client::throw_failure(failure(Code::unavailable,
                                  "process group \"{}\" cannot start its worker thread: {}",
                                  world_.name, error.what()));
  }
}

// Runs on the worker thread.
void CallQueue::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (run_first(lock)) continue;
    worker_waits_ = true;
    work_changed_.wait(lock);
    worker_waits_ = false;
  }
}

// If the first call has its turn and the worker must run it, starts the call and returns true.
// Releases the lock meanwhile.
bool CallQueue::run_first(std::unique_lock<std::mutex>& lock) {
  if (!first_ || first_->on_callers_thread || !may_start_locked()) return false;
  const std::shared_ptr<Call> call = pop_locked();
  starting_ = true;
  ++in_flight_;
  lock.unlock();
  start(call);
  lock.lock();
  return true;
}

void CallQueue::abort(const Failure& reason, bool says_all) {
  if (!failure_.abort(reason, says_all)) return;
  // Called without the lock, because it may take long and issue() must not wait for that.
  if (const auto backend = this->backend()) backend->abort(reason.detail);
}

void CallQueue::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  await_idle(lock);
}

void CallQueue::await_idle(std::unique_lock<std::mutex>& lock) {
  while (!idle_locked()) wait_locked(lock, idle_);
}

// Waits for a notification, or for a moment if the backend must be driven. Releases the lock.
void CallQueue::wait_locked(std::unique_lock<std::mutex>& lock, std::condition_variable& changed) {
  if (!traits_.needs_progress) return changed.wait(lock);
  lock.unlock();
  progress();
  lock.lock();
  changed.wait_for(lock, kProgressPeriod);
}

void CallQueue::destroy() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  // A thread that ends a call wakes the waiters first: then nothing is pending, but the queue is
  // not idle yet.
  if (unfinished_ > 0) {
    lock.unlock();
    abort(failure(Code::aborted, "it was destroyed while operations were pending"), true);
    lock.lock();
  }
  // A callback may destroy the group on the worker thread, which must then empty the queue here.
  const bool on_worker = worker_.get_id() == std::this_thread::get_id();
  while (on_worker && run_first(lock)) continue;
  await_idle(lock);
  stop_ = true;
  work_changed_.notify_one();
  std::thread worker = std::move(worker_);
  const std::shared_ptr<Backend> backend = std::move(backend_);
  lock.unlock();
  if (on_worker) {
    worker.detach();
  } else if (worker.joinable()) {
    worker.join();
  }
}

void CallQueue::progress() {
  if (!traits_.needs_progress) return;
  if (const auto backend = this->backend()) backend->progress();
}

std::shared_ptr<Backend> CallQueue::backend() const {
  const std::lock_guard lock(mutex_);
  return backend_;
}

}  // namespace c10dd::collectives
