// SPDX-License-Identifier: Apache-2.0
// The part of a process group that is the same for all backends: checks arguments, runs the
// collectives in the order of issue, calls the hooks, and keeps the first reason why the group
// failed. Never passes invalid arguments or empty tensors to a backend.
#include "collectives/process_group.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "client/internal/fork_guard.h"
#include "client/internal/throw_failure.h"
#include "collectives/abortable_group.h"
#include "collectives/backend.h"
#include "collectives/call.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd {

using client::throw_failure;
using collectives::Backend;
using collectives::BackendSetup;
using collectives::Call;

namespace {

using Clock = CollectiveCall::Clock;

/// Owns the backend, the queue of collectives and the worker thread that runs them.
class Group final : public collectives::AbortableGroup {
 public:
  Group(World world, GroupOptions options, std::unique_ptr<Backend> backend,
        collectives::FailureSources sources)
      : world_(std::move(world)),
        options_(std::move(options)),
        sources_(std::move(sources)),
        backend_(std::move(backend)) {
    worker_ = std::thread([this] { work(); });
  }

  ~Group() override {
    bool busy = false;
    {
      const std::lock_guard lock(mutex_);
      busy = running_ || !queue_.empty();
    }
    if (busy) abort("it was destroyed with work pending");
    close();
  }

  WorkPtr issue(Operation operation) override {
    require_home();
    check(operation);
    if (info_of(operation.collective).root == Root::none) operation.root = 0;
    auto call = client::owned_by_this_process(new Call(home_));
    CollectiveCall& info = call->info;
    const Tensor& common = operation.common();
    info.collective = operation.collective;
    info.dtype = common.dtype;
    info.reduce = operation.reduce;
    info.root = operation.root;
    info.count = common.count;
    info.bytes = operation.payload(size());
    info.timeout = *(operation.timeout = operation.timeout.value_or(options_.timeout));
    call->operation = std::move(operation);
    return queue(std::move(call));
  }

  const World& world() const override { return world_; }
  std::string_view backend() const override { return options_.backend; }

  void abort(const std::string& reason) override { abort(failure(Code::aborted, reason), true); }

  void abort(Failure reason) override { abort(std::move(reason), false); }

  void shutdown() override {
    require_home();
    close();
  }

 private:
  void require_home() const { home_.require("process group", "open another one"); }

  void abort(Failure reason, bool by_owner) {
    require_home();
    const std::string text = reason.detail;
    {
      const std::lock_guard lock(mutex_);
      if (dead_) return;
      aborted_by_owner_ = by_owner;
      dead_ = std::move(reason);
      dead_->detail = format("process group \"{}\" aborted: {}", world_.name, text);
    }
    died_.notify_all();
    // Called without the lock, because abort() may take long and issue() must not wait for that.
    backend_->abort(text);
  }

  [[noreturn]] static void refuse(std::string text) {
    throw_failure(failure(Code::invalid_argument, std::move(text)));
  }

  /// Throws InvalidArgument if the arguments cannot be right whatever the other ranks issue.
  void check(const Operation& operation) const {
    if (!is_operation(operation.collective)) {
      refuse(format("the operation has number {}, but the last operation has number {}",
                    static_cast<unsigned>(operation.collective), std::size(kOperations) - 1));
    }
    const OperationInfo& info = info_of(operation.collective);
    if (info.root != Root::none && operation.root >= size()) {
      refuse(format("{}: root {} is not a rank of process group \"{}\", size {}", info.function,
                    operation.root, world_.name, size()));
    }
    check_tensors(info, operation);
    if (info.reduces && !combines(operation.reduce, operation.output.dtype)) {
      refuse(format("{}: {} does not combine elements of type {}", info.function,
                    name_of(operation.reduce), name_of(operation.output.dtype)));
    }
    const Duration timeout = operation.timeout.value_or(options_.timeout);
    if (timeout <= Duration{0}) {
      refuse(format("the time-out for {} must be positive, got {} ns", info.function,
                    timeout.count()));
    }
  }

  void check_tensors(const OperationInfo& info, const Operation& operation) const {
    const Tensor& output = operation.output;
    const Tensor& input = operation.input;
    const bool root = operation.root == rank();
    switch (info.layout) {
      case Layout::none:
        return;
      case Layout::in_place:
        return check(output, std::string(info.function));
      case Layout::gathered:
        return check_sizes(info, "output", output, size(), "input", input);
      case Layout::gathered_at_root:
        if (root) return check_sizes(info, "output", output, size(), "input", input);
        return check_absent(info, "output", output, "input", input);
      case Layout::split:
        return check_sizes(info, "input", input, size(), "output", output);
      case Layout::split_by_root:
        if (root) return check_sizes(info, "input", input, size(), "output", output);
        return check_absent(info, "input", input, "output", output);
      case Layout::exchanged:
        return check_exchanged(info, output, input);
    }
  }

  /// Checks that the tensor `large` has `times` times the elements of the tensor `small`.
  static void check_sizes(const OperationInfo& info, const char* large_name, const Tensor& large,
                          Rank times, const char* small_name, const Tensor& small) {
    check(large, format("{} {}", info.function, large_name));
    check(small, format("{} {}", info.function, small_name));
    if (large.dtype == small.dtype && large.count == small.count * times) return;
    refuse(format("{}: the {} has {} {} elements, but needs {} times the {} {} elements of the {}",
                  info.function, large_name, large.count, name_of(large.dtype), times, small.count,
                  name_of(small.dtype), small_name));
  }

  /// Checks the tensors of a rank that is not the root: `absent` must be empty.
  static void check_absent(const OperationInfo& info, const char* absent_name, const Tensor& absent,
                           const char* name, const Tensor& tensor) {
    check(tensor, format("{} {}", info.function, name));
    if (absent.count == 0) return;
    refuse(format("{}: the {} has {} elements, but must be empty: only the root has one",
                  info.function, absent_name, absent.count));
  }

  void check_exchanged(const OperationInfo& info, const Tensor& output, const Tensor& input) const {
    check_sizes(info, "output", output, 1, "input", input);
    if (input.count % size() != 0) {
      refuse(format("{}: {} elements cannot be divided by the {} ranks of process group \"{}\"",
                    info.function, input.count, size(), world_.name));
    }
    const auto* const from = static_cast<const std::byte*>(input.data);
    const auto* const to = static_cast<const std::byte*>(output.data);
    const std::less<const std::byte*> before;
    const bool overlap = before(from, to + output.bytes()) && before(to, from + input.bytes());
    if (overlap) refuse(format("{}: input and output overlap", info.function));
  }

  static void check(const Tensor& tensor, const std::string& what) {
    if (!is_dtype(tensor.dtype)) {
      refuse(format("{}: the element type has number {}, but the last type has number {}", what,
                    static_cast<unsigned>(tensor.dtype), kDTypes - 1));
    }
    if (tensor.count > 0 && tensor.data == nullptr) {
      refuse(format("{}: data is null, but count is {}", what, tensor.count));
    }
    if (tensor.device.kind != Device::Kind::cpu) {
      refuse(format("{}: the tensor is not in cpu memory; this backend supports only cpu memory",
                    what));
    }
  }

  /// Numbers and queues the collective under one lock, so that the queue is in numeric order.
  WorkPtr queue(std::shared_ptr<Call> call) {
    {
      const std::lock_guard lock(mutex_);
      call->info.enqueued = Clock::now();
      call->info.sequence = call->operation.sequence = next_sequence_++;
      if (!dead_ && !closed_) {
        queue_.push_back(call);
        changed_.notify_one();
        return call;
      }
    }
    call->end(Work::Status::abandoned, reason());
    return call;
  }

  /// Returns the reason why no further collective can run.
  Failure reason() const {
    const std::lock_guard lock(mutex_);
    return dead_ ? *dead_ : failure(Code::closed, "process group \"{}\" is shut down", world_.name);
  }

  /// Runs on the worker thread. Returns when the group is closed and the queue is empty.
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::shared_ptr<Call> call = std::move(queue_.front());
      queue_.pop_front();
      const bool abandoned = dead_.has_value();
      running_ = true;
      lock.unlock();
      if (abandoned) {
        call->end(Work::Status::abandoned, reason());
      } else {
        run(*call);
      }
      lock.lock();
      running_ = false;
    }
  }

  /// Runs the collective. Gives the outcome to the hooks first, and then to the waiters of `call`.
  void run(Call& call) {
    call.info.started = Clock::now();
    for (const auto& hook : options_.hooks) hook->before(call.info);
    Result<void> result = execute(call);
    call.info.finished = Clock::now();
    Failure why = failure(Code::ok, "");
    if (!result) why = explained(call.info, die(call.info, result.error()));
    call.info.outcome = why.code;
    for (const auto& hook : options_.hooks) hook->after(call.info);
    call.end(result ? Work::Status::done : Work::Status::failed, why);
  }

  /// Marks the group as dead after the backend has failed with `seen`. If a peer was lost, first
  /// waits up to `reason_patience` for abort(), which may bring the daemon's reason. Returns the
  /// reason of abort() if abort() came, unconfirmed() if the wait timed out, and otherwise `seen`.
  Failure die(const CollectiveCall& call, Failure seen) {
    std::unique_lock lock(mutex_);
    const bool lost = seen.code == Code::unavailable || seen.code == Code::aborted;
    const Duration patience = sources_.reason_patience;
    if (lost && patience > Duration{0} &&
        !died_.wait_for(lock, patience, [this] { return dead_.has_value(); })) {
      seen = unconfirmed(call, std::move(seen));
    }
    if (!dead_) dead_ = std::move(seen);
    return *dead_;
  }

  /// Returns `seen` with code aborted, and with "not confirmed yet" at the end of its text.
  static Failure unconfirmed(const CollectiveCall& call, Failure seen) {
    seen.code = Code::aborted;
    if (!seen.missing.empty()) {
      seen.detail = format("{} {} failed: {}: {}", name_of(call.collective), call.sequence,
                           collectives::described(seen.missing), seen.missing.front().doing);
    }
    seen.detail += ", not confirmed yet";
    return seen;
  }

  /// Adds to `why` what the other ranks are doing, stores the result in dead_ and returns it.
  /// Changes nothing if the group's owner has aborted the group. Asks the daemon without holding
  /// the lock, because the reply may take a moment.
  Failure explained(const CollectiveCall& call, Failure why) {
    {
      const std::lock_guard lock(mutex_);
      if (aborted_by_owner_) return why;
    }
    const std::size_t known = why.detail.size();
    if (sources_.explain) sources_.explain(call, why);
    if (why.code == Code::timed_out && why.detail.size() == known && !why.missing.empty()) {
      why.detail += "; check the logs or a stack trace of these ranks";
    }
    const std::lock_guard lock(mutex_);
    dead_ = why;
    return why;
  }

  Result<void> execute(Call& call) {
    // Tensors without elements need no communication, because the other ranks' tensors have none
    // either. An operation without tensors, such as a barrier, must run.
    const bool moves_data = info_of(call.info.collective).layout != Layout::none;
    if (moves_data && call.info.count == 0) return {};
    call.operation.deadline = call.info.started + call.info.timeout;
    return backend_->run(call.operation);
  }

  /// Closes the group. Waits until the worker thread has run the queue and ended. Thread-safe.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    const std::lock_guard joining(join_mutex_);
    if (worker_.joinable()) worker_.join();
  }

  const client::HomeProcess home_;
  const World world_;
  const GroupOptions options_;
  const collectives::FailureSources sources_;
  const std::unique_ptr<Backend> backend_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< queue_ or closed_ has changed
  std::condition_variable died_;     ///< abort() has set dead_
  std::deque<std::shared_ptr<Call>> queue_;
  std::uint64_t next_sequence_ = 0;
  std::optional<Failure> dead_;    ///< if set, no collective can run any more; never reset
  bool aborted_by_owner_ = false;  ///< true if ProcessGroup::abort() has stopped the group
  bool closed_ = false;            ///< no further collective is accepted
  bool running_ = false;           ///< true while the worker thread handles a collective

  std::mutex join_mutex_;  ///< ensures that only one thread at a time joins worker_
  std::thread worker_;
};

}  // namespace

WorkPtr ProcessGroup::all_reduce(Tensor tensor, ReduceOp op, std::optional<Duration> timeout) {
  return issue({.collective = Collective::all_reduce,
                .output = std::move(tensor),
                .reduce = op,
                .timeout = timeout});
}

WorkPtr ProcessGroup::broadcast(Tensor tensor, Rank root, std::optional<Duration> timeout) {
  return issue({.collective = Collective::broadcast,
                .output = std::move(tensor),
                .root = root,
                .timeout = timeout});
}

WorkPtr ProcessGroup::all_gather_single(Tensor output, Tensor input,
                                        std::optional<Duration> timeout) {
  return issue({.collective = Collective::all_gather,
                .output = std::move(output),
                .input = std::move(input),
                .timeout = timeout});
}

WorkPtr ProcessGroup::reduce(Tensor tensor, Rank root, ReduceOp op,
                             std::optional<Duration> timeout) {
  return issue({.collective = Collective::reduce,
                .output = std::move(tensor),
                .reduce = op,
                .root = root,
                .timeout = timeout});
}

WorkPtr ProcessGroup::reduce_scatter_single(Tensor output, Tensor input, ReduceOp op,
                                            std::optional<Duration> timeout) {
  return issue({.collective = Collective::reduce_scatter,
                .output = std::move(output),
                .input = std::move(input),
                .reduce = op,
                .timeout = timeout});
}

WorkPtr ProcessGroup::gather_single(Tensor output, Tensor input, Rank root,
                                    std::optional<Duration> timeout) {
  return issue({.collective = Collective::gather,
                .output = std::move(output),
                .input = std::move(input),
                .root = root,
                .timeout = timeout});
}

WorkPtr ProcessGroup::scatter_single(Tensor output, Tensor input, Rank root,
                                     std::optional<Duration> timeout) {
  return issue({.collective = Collective::scatter,
                .output = std::move(output),
                .input = std::move(input),
                .root = root,
                .timeout = timeout});
}

WorkPtr ProcessGroup::all_to_all_single(Tensor output, Tensor input,
                                        std::optional<Duration> timeout) {
  return issue({.collective = Collective::all_to_all,
                .output = std::move(output),
                .input = std::move(input),
                .timeout = timeout});
}

WorkPtr ProcessGroup::barrier(std::optional<Duration> timeout) {
  return issue({.collective = Collective::barrier, .timeout = timeout});
}

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Bootstrap> bootstrap, World world,
                                                 GroupOptions options) {
  return collectives::open_group(std::move(bootstrap), std::move(world), std::move(options));
}

std::shared_ptr<collectives::AbortableGroup> collectives::open_group(
    std::shared_ptr<Bootstrap> bootstrap, World world, GroupOptions options,
    FailureSources sources) {
  if (world.size == 0 || world.rank >= world.size) {
    throw_failure(failure(Code::invalid_argument,
                          "process group \"{}\": rank {} is not below size {}", world.name,
                          world.rank, world.size));
  }
  if (options.timeout <= Duration{0} || options.open_timeout <= Duration{0}) {
    throw_failure(failure(Code::invalid_argument,
                          "process group \"{}\": time-outs must be positive", world.name));
  }
  if (!bootstrap) {
    throw_failure(
        failure(Code::invalid_argument, "process group \"{}\": bootstrap is null", world.name));
  }
  const BackendSetup setup{world, options, std::move(bootstrap)};
  auto backend = collectives::open_backend(setup);
  if (setup.thrown) std::rethrow_exception(setup.thrown);
  if (!backend) throw_failure(backend.error());
  return client::owned_by_this_process(
      new Group(std::move(world), std::move(options), std::move(*backend), std::move(sources)));
}

}  // namespace c10dd
