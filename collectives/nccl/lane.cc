// SPDX-License-Identifier: Apache-2.0
// An event that is recorded while NCCL returns in_progress is reached too early, because the
// operation is not on the stream yet. So a unit is first issued, until NCCL returns success, and
// then the event of its end is recorded. That of its begin comes before.
#include "collectives/nccl/lane.h"

#include <algorithm>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/message_texts.h"
#include "collectives/nccl/freeing_thread.h"
#include "collectives/used_tensors.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives::nccl {
namespace {

// The driver blocks who puts something on a stream that holds about 1024 things. An operation is
// about four of them: it waits for the caller's stream, runs, and has an event at its begin and at
// its end.
constexpr std::size_t kOnStream = 64;

bool is_message(const Operation& operation) { return info_of(operation.collective).message; }

void complete(const Operation& operation, Completion& completion, Result<void> result) {
  if (!is_message(operation)) return completion.complete(std::move(result));
  if (!result) return completion.complete_message(result.error());
  const bool received = operation.collective == Collective::recv;
  completion.complete_message(received ? Received{operation.peer, 0, operation.output.count}
                                       : Received{});
}

bool has_owner(const Operation& operation) {
  const auto owned = [](const Tensor& tensor) { return tensor.owner != nullptr; };
  return owned(operation.output) || owned(operation.input) ||
         std::ranges::any_of(operation.outputs, owned) ||
         std::ranges::any_of(operation.inputs, owned);
}

}  // namespace

Lane::Lane(const Library& library, const CudaDevice& device, Comm comm, void* stream, Rank rank,
           Rank size, std::shared_ptr<const void> settings)
    : library_(library),
      device_(device),
      rank_(rank),
      size_(size),
      settings_(std::move(settings)),
      comm_(comm),
      stream_(stream) {}

Channel Lane::channel() const { return {library_.api(), comm_, stream_, rank_, size_}; }

void Lane::on_failure(Listener listener) {
  std::unique_lock lock(mutex_);
  listener_ = std::move(listener);
  if (!dead_) return;
  const Listener call = listener_;
  const Failure reason = *dead_;
  lock.unlock();
  call(reason);
}

void Lane::start(const Operation& operation, Completion& completion) {
  auto entry = std::make_shared<Entry>();
  entry->operation = operation;
  if (const Result<void> prepared = prepare(*entry); !prepared) {
    const Failure why = failed(*entry, prepared.error());
    fail(why);
    return complete(operation, completion, why);
  }
  add(std::move(entry), completion);
}

void Lane::start_call(Call call, const char* name, const Operation& operation,
                      Completion& completion) {
  auto entry = std::make_shared<Entry>();
  entry->operation = operation;
  entry->call = std::move(call);
  entry->name = name;
  add(std::move(entry), completion);
}

/// Makes the tensors ready for the device, on the thread that issues the operation.
Result<void> Lane::prepare(Entry& entry) const {
  Operation& operation = entry.operation;
  if (operation.collective == Collective::barrier) {
    entry.is_barrier = true;
    operation.collective = Collective::all_reduce;
    operation.output = tensor_of(&entry.byte, 1);
  }
  if (operation.common().device.kind == Device::Kind::cpu) {
    auto copy = HostCopy::begin(device_, operation, rank_);
    if (!copy) return copy.error();
    entry.copy = std::move(*copy);
    return {};
  }
  std::vector<void*> streams;
  const auto add_stream = [&](const Tensor& tensor) {
    const bool known = std::ranges::count(streams, tensor.stream) > 0;
    if (tensor.count > 0 && !known) streams.push_back(tensor.stream);
  };
  const UsedTensors used = used_tensors(operation);
  for (const Tensor* one : used.outputs) add_stream(*one);
  for (const Tensor* one : used.inputs) add_stream(*one);
  for (void* const stream : streams) {
    auto event = device_.make_event();
    if (!event) return event.error();
    if (Result<void> recorded = (*event)->record(stream); !recorded) return recorded;
    entry.ready.push_back(std::move(*event));
  }
  return {};
}

void Lane::add(std::shared_ptr<Entry> entry, Completion& completion) {
  const Operation& operation = entry->operation;
  std::unique_lock lock(mutex_);
  if (dead_) {
    const Failure reason = *dead_;
    lock.unlock();
    return complete(operation, completion, reason);
  }
  entry->completion = &completion;
  entries_.push_back(entry);
  next_deadline_ = std::min(next_deadline_, operation.deadline);
  const std::uint64_t batch = operation.batch;
  if (batch == 0) {
    queue_.push_back({.entries = {std::move(entry)}});
  } else {
    const bool last = operation.following == 0;
    Unit& unit = gathering_[batch];
    unit.entries.push_back(std::move(entry));
    if (last) {
      queue_.push_back(std::move(unit));
      gathering_.erase(batch);
    }
  }
  lock.unlock();
  const Result<void> woken = Worker::instance().wake(shared_from_this());
  if (!woken) fail(woken.error());
}

void Lane::issue() {
  const CudaDevice::Current current(device_);
  issue_next();
}

Worker::Task::Step Lane::poll(Clock::time_point now) {
  if (retired_) return Step::ended;
  if (retire()) return Step::ended;
  const CudaDevice::Current current(device_);
  bool advanced = advance();
  while (end_reached()) advanced = true;
  while (issue_next()) advanced = true;
  if (begin_reached()) advanced = true;
  if (auto late = find_late(now)) fail_on_worker(*late);
  if (advanced) return Step::advanced;
  const std::lock_guard lock(mutex_);
  const bool idle = entries_.empty() && !dead_ && !closed_;
  return idle ? Step::ended : Step::waits;
}

/// Issues the next unit, if there is one and NCCL is ready for it. Returns whether it has.
bool Lane::issue_next() {
  if (issuing_ || retired_ || on_stream_ >= kOnStream) return false;
  Unit unit;
  {
    const std::lock_guard lock(mutex_);
    if (dead_ || queue_.empty()) return false;
    unit = std::move(queue_.front());
    queue_.pop_front();
  }
  issuing_ = std::move(unit);
  if (Result<void> begun = begin(*issuing_); !begun) {
    fail_on_worker(begun.error());
    return true;
  }
  advance();
  return true;
}

/// Gives the unit to NCCL.
Result<void> Lane::begin(Unit& unit) {
  std::vector<const Operation*> operations;
  for (const auto& entry : unit.entries) {
    if (entry->call) {
      const Issued issued = entry->call(comm_);
      if (issued.status == Status::success || issued.status == Status::in_progress) continue;
      return failed(*entry, issued.call, issued.status);
    }
    operations.push_back(&entry->operation);
    for (const auto& ready : entry->ready) {
      if (Result<void> ordered = ready->order(stream_); !ordered) {
        return failed(*entry, ordered.error());
      }
    }
    if (!entry->copy) continue;
    if (Result<void> copied = entry->copy->copy_in(stream_); !copied) {
      return failed(*entry, copied.error());
    }
  }
  if (operations.empty()) return {};
  auto event = device_.make_event();
  if (!event) return failed(*unit.entries.front(), event.error());
  if (Result<void> recorded = (*event)->record(stream_); !recorded) {
    return failed(*unit.entries.front(), recorded.error());
  }
  unit.begin = std::move(*event);
  const Issued issued = nccl::issue(channel(), operations, unit.made);
  if (issued.status == Status::success || issued.status == Status::in_progress) return {};
  return failed(*unit.entries.front(), issued.call, issued.status);
}

/// Asks NCCL for the state of the communicator. If the unit that is being issued is on the stream,
/// puts its event behind it. Returns whether something has changed.
bool Lane::advance() {
  if (!issuing_ && running_.empty()) return false;
  Status status = Status::success;
  const Status asked = library_.api().async_error(comm_, &status);
  if (asked != Status::success) status = asked;
  if (status == Status::in_progress) return false;
  // NCCL does not say which operation has failed: the newest call is the likeliest.
  const Entry& first = *(issuing_ ? *issuing_ : running_.front()).entries.front();
  if (status != Status::success) {
    fail_on_worker(failed(first, "ncclCommGetAsyncError", status));
    return true;
  }
  if (!issuing_) return false;
  if (Result<void> put = put_behind(*issuing_); !put) {
    fail_on_worker(failed(*issuing_->entries.front(), put.error()));
    return true;
  }
  on_stream_ += issuing_->entries.size();
  running_.push_back(std::move(*issuing_));
  issuing_.reset();
  return true;
}

/// Records the end of a unit that is on the stream, and tells those that want to order a stream.
Result<void> Lane::put_behind(Unit& unit) {
  for (const Op op : unit.made) library_.api().destroy_op(op, comm_);
  for (const auto& entry : unit.entries) {
    if (!entry->copy) continue;
    if (Result<void> copied = entry->copy->copy_out(stream_); !copied) return copied;
  }
  auto event = device_.make_event();
  if (!event) return event.error();
  if (Result<void> recorded = (*event)->record(stream_); !recorded) return recorded;
  unit.end = std::move(*event);
  const std::lock_guard lock(mutex_);
  for (const auto& entry : unit.entries) {
    const bool on_device = !entry->copy && !entry->call;
    if (on_device && entry->completion != nullptr) entry->completion->enqueued(unit.end);
  }
  return {};
}

/// Ends the first unit on the stream if it is over. Returns whether it was.
bool Lane::end_reached() {
  if (running_.empty()) return false;
  const Result<bool> reached = running_.front().end->reached();
  if (!reached) {
    fail_on_worker(failed(*running_.front().entries.front(), reached.error()));
    return false;
  }
  if (!*reached) return false;
  Unit unit = std::move(running_.front());
  running_.pop_front();
  on_stream_ -= unit.entries.size();
  if (unit.begin) tell_begun(unit);
  end(unit);
  const bool owned = std::ranges::any_of(
      unit.entries, [](const auto& entry) { return has_owner(entry->operation); });
  // An owner may free memory of the device. Here it would hold up all groups.
  if (owned) {
    FreeingThread::instance().run(
        [entries = std::move(unit.entries)]() mutable { entries.clear(); });
  }
  return true;
}

/// Looks whether the stream has got to the next unit, which is the first one that has not ended:
/// NCCL may still be busy with it. Returns whether it has.
bool Lane::begin_reached() {
  Unit* const next = !running_.empty() ? &running_.front() : issuing_ ? &*issuing_ : nullptr;
  if (next == nullptr || !next->begin) return false;
  const Result<bool> reached = next->begin->reached();
  if (!reached) {
    fail_on_worker(failed(*next->entries.front(), reached.error()));
    return false;
  }
  if (*reached) tell_begun(*next);
  return *reached;
}

void Lane::tell_begun(Unit& unit) {
  unit.begin.reset();
  const std::lock_guard lock(mutex_);
  for (const auto& entry : unit.entries) {
    if (entry->completion != nullptr) entry->completion->begun();
  }
}

void Lane::end(const Unit& unit) {
  for (const auto& entry : unit.entries) {
    Completion* completion = nullptr;
    {
      const std::lock_guard lock(mutex_);
      // A caller whose operation has ended by a failure may have freed the tensors.
      if (entry->completion != nullptr && entry->copy) entry->copy->finish();
      completion = std::exchange(entry->completion, nullptr);
      while (!entries_.empty() && entries_.front()->completion == nullptr) entries_.pop_front();
    }
    if (completion == nullptr) continue;
    complete(entry->operation, *completion, {});
  }
}

std::optional<Failure> Lane::find_late(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (dead_ || now < next_deadline_) return std::nullopt;
  next_deadline_ = Clock::time_point::max();
  for (const auto& entry : entries_) {
    const Operation& operation = entry->operation;
    if (entry->completion == nullptr) continue;
    next_deadline_ = std::min(next_deadline_, operation.deadline);
    if (operation.deadline > now) continue;
    if (is_message(operation)) return message_timed_out(operation);
    return failure(Code::timed_out, "{} timed out after {}", name(*entry),
                   human(operation.timeout));
  }
  return std::nullopt;
}

std::string Lane::name(const Entry& entry) {
  if (entry.call) return entry.name;
  if (is_message(entry.operation)) return message_text(entry.operation);
  if (!entry.is_barrier) return text_of(entry.operation);
  return text_of(
      Operation{.collective = Collective::barrier, .sequence = entry.operation.sequence});
}

Failure Lane::failed(const Entry& entry, const Failure& why) {
  return failure(why.code, "{} failed: {}", name(entry), why.detail);
}

Failure Lane::failed(const Entry& entry, const char* call, Status status) const {
  // NCCL returns system_error when a connection breaks, and when a call of this system fails.
  const bool lost = status == Status::remote_error || status == Status::system_error;
  const char* const lost_text = status == Status::remote_error
                                    ? "a peer was lost: "
                                    : "a peer was lost, or a system call on this rank failed: ";
  return failed(entry, failure(lost ? Code::unavailable : Code::internal, "{}{}",
                               lost ? lost_text : "", library_.text_of(call, status, comm_)));
}

void Lane::fail(const Failure& reason) {
  Ends ends;
  const Listener listener = die(reason, ends);
  if (!listener) return;
  listener(reason);
  complete_all(ends, reason);
}

/// As fail(), but on other threads: a group that has lost a peer waits for the daemon's reason
/// before its work ends, and the worker must not wait.
void Lane::fail_on_worker(const Failure& reason) {
  Ends ends;
  const Listener listener = die(reason, ends);
  if (!listener) return;
  Retirement::instance().run([listener, reason] { listener(reason); });
  if (ends.empty()) return;
  Retirement::instance().run([ends, reason] { complete_all(ends, reason); });
}

/// Records the failure, and adds the operations that have not ended to `ends`. Returns the
/// listener; an empty one if the lane has failed or was closed before.
Lane::Listener Lane::die(const Failure& reason, Ends& ends) {
  Listener listener;
  {
    const std::lock_guard lock(mutex_);
    if (dead_ || closed_) return {};
    listener = listener_;
    dead_ = reason;
    reserved_ = Retirement::instance().reserve(device_);
    held_ = Retirement::instance().hold();
    for (const auto& entry : entries_) {
      if (entry->completion == nullptr) continue;
      ends.emplace_back(entry, std::exchange(entry->completion, nullptr));
    }
  }
  // Without a thread the communicator is aborted when another task is woken.
  static_cast<void>(Worker::instance().wake(shared_from_this()));
  return listener;
}

void Lane::complete_all(const Ends& ends, const Failure& reason) {
  for (const auto& [entry, completion] : ends) complete(entry->operation, *completion, reason);
}

void Lane::close() {
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return;
    closed_ = true;
    held_ = Retirement::instance().hold();
  }
  static_cast<void>(Worker::instance().wake(shared_from_this()));  // as in die()
}

/// Gives the communicator away if the lane has failed or was closed. Returns whether it has.
bool Lane::retire() {
  struct Kept {
    std::optional<Unit> issuing;
    std::deque<Unit> running;
    std::deque<Unit> queue;
    std::map<std::uint64_t, Unit> gathering;
    std::deque<std::shared_ptr<Entry>> entries;
    std::shared_ptr<const void> settings;
  };
  Retired retired{.library = &library_, .device = &device_, .comm = comm_, .stream = stream_};
  bool aborts = false;
  {
    const std::lock_guard lock(mutex_);
    if (!dead_ && !closed_) return false;
    aborts = dead_.has_value();
    const auto kept =
        std::make_shared<Kept>(Kept{std::move(issuing_), std::move(running_), std::move(queue_),
                                    std::move(gathering_), std::move(entries_), settings_});
    retired.kept = kept;
    retired.reserved = std::move(reserved_);
    retired.held = std::move(held_);
    entries_.clear();
  }
  retired_ = true;
  issuing_.reset();
  running_.clear();
  aborts ? Retirement::instance().abort(std::move(retired))
         : Retirement::instance().finish(std::move(retired));
  return true;
}

}  // namespace c10dd::collectives::nccl
