// SPDX-License-Identifier: Apache-2.0
// The group around any backend: checks arguments, keeps the issue order, runs hooks, and remembers
// the first reason why the group died. Backends see only valid, non-empty collectives.
#include "collectives/process_group.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "client/internal/fork_guard.h"
#include "client/internal/throw_failure.h"
#include "collectives/abortable_group.h"
#include "collectives/backend.h"
#include "collectives/call.h"
#include "collectives/wording.h"

namespace c10dd {

using client::throw_failure;
using collectives::Backend;
using collectives::BackendSetup;
using collectives::Call;

namespace {

using Clock = CollectiveCall::Clock;

class Group final : public collectives::AbortableGroup {
 public:
  Group(World world, GroupOptions options, std::unique_ptr<Backend> backend,
        collectives::Informants informants)
      : world_(std::move(world)),
        options_(std::move(options)),
        informants_(std::move(informants)),
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

  WorkPtr all_reduce(Tensor tensor, ReduceOp op, std::optional<Duration> timeout) override {
    check(tensor, "all_reduce");
    auto call = prepare(Collective::all_reduce, tensor, timeout);
    call->info.reduce = op;
    call->output = std::move(tensor);
    return issue(std::move(call));
  }

  WorkPtr broadcast(Tensor tensor, Rank root, std::optional<Duration> timeout) override {
    check(tensor, "broadcast");
    if (root >= size()) {
      refuse("broadcast: root " + std::to_string(root) + " is not a rank of process group \"" +
             world_.name + "\", size " + std::to_string(size()));
    }
    auto call = prepare(Collective::broadcast, tensor, timeout);
    call->info.root = root;
    call->output = std::move(tensor);
    return issue(std::move(call));
  }

  WorkPtr all_gather_single(Tensor output, Tensor input, std::optional<Duration> timeout) override {
    check(output, "all_gather_single output");
    check(input, "all_gather_single input");
    if (output.dtype != input.dtype || output.count != input.count * size()) {
      refuse("all_gather_single: output has " + std::to_string(output.count) + " x " +
             std::string(name_of(output.dtype)) + ", expected " + std::to_string(size()) +
             " times the input's " + std::to_string(input.count) + " x " +
             std::string(name_of(input.dtype)));
    }
    auto call = prepare(Collective::all_gather, input, timeout);
    call->info.bytes = output.bytes();
    call->output = std::move(output);
    call->input = std::move(input);
    return issue(std::move(call));
  }

  WorkPtr barrier(std::optional<Duration> timeout) override {
    return issue(prepare(Collective::barrier, Tensor{}, timeout));
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
    const std::string words = reason.detail;
    {
      const std::lock_guard lock(mutex_);
      if (dead_) return;
      given_up_ = by_owner;
      dead_ = std::move(reason);
      dead_->detail = "process group \"" + world_.name + "\" aborted: " + words;
    }
    died_.notify_all();
    // Outside the lock: a backend may take its time, and issuing must not wait for it.
    backend_->abort(words);
  }

  [[noreturn]] static void refuse(std::string text) {
    throw_failure(failure(Code::invalid_argument, std::move(text)));
  }

  static void check(const Tensor& tensor, const char* what) {
    if (tensor.count > 0 && tensor.data == nullptr) {
      refuse(std::string(what) + ": data is null, count is " + std::to_string(tensor.count));
    }
    if (tensor.device.kind != Device::Kind::cpu) {
      refuse(std::string(what) + ": tensor is not in cpu memory, this backend needs that");
    }
  }

  std::shared_ptr<Call> prepare(Collective collective, const Tensor& tensor,
                                std::optional<Duration> timeout) const {
    require_home();
    auto call = client::owned_by_this_process(new Call(home_));
    call->info.collective = collective;
    call->info.dtype = tensor.dtype;
    call->info.count = tensor.count;
    call->info.bytes = tensor.bytes();
    call->info.timeout = timeout.value_or(options_.timeout);
    if (call->info.timeout <= Duration{0}) refuse("time-out of a collective must be positive");
    return call;
  }

  WorkPtr issue(std::shared_ptr<Call> call) {
    {
      const std::lock_guard lock(mutex_);
      call->info.enqueued = Clock::now();
      call->info.sequence = next_sequence_++;
      if (!dead_ && !closed_) {
        queue_.push_back(call);
        changed_.notify_one();
        return call;
      }
    }
    call->end(Work::Status::abandoned, reason());
    return call;
  }

  Failure reason() const {
    const std::lock_guard lock(mutex_);
    return dead_ ? *dead_
                 : failure(Code::closed, "process group \"" + world_.name + "\" is shut down");
  }

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

  /// Why the group is dead, now that a collective has failed.
  Failure die(const CollectiveCall& call, Failure seen) {
    std::unique_lock lock(mutex_);
    const bool lost = seen.code == Code::unavailable || seen.code == Code::aborted;
    const Duration patience = informants_.verdict_patience;
    if (lost && patience > Duration{0} &&
        !died_.wait_for(lock, patience, [this] { return dead_.has_value(); })) {
      seen = unconfirmed(call, std::move(seen));
    }
    if (!dead_) dead_ = std::move(seen);
    return *dead_;
  }

  static Failure unconfirmed(const CollectiveCall& call, Failure seen) {
    seen.code = Code::aborted;
    if (!seen.missing.empty()) {
      seen.detail = std::string(name_of(call.collective)) + " " + std::to_string(call.sequence) +
                    " failed: " + collectives::described(seen.missing) + ": " +
                    seen.missing.front().doing;
    }
    seen.detail += ", not confirmed yet";
    return seen;
  }

  /// With what the others are doing, unless the owner of the group has ended it.
  Failure explained(const CollectiveCall& call, Failure why) {
    {
      const std::lock_guard lock(mutex_);
      if (given_up_) return why;
    }
    const std::size_t known = why.detail.size();
    if (informants_.explain) informants_.explain(call, why);
    if (why.code == Code::timed_out && why.detail.size() == known && !why.missing.empty()) {
      why.detail += "; look at what they are doing: their logs, or a stack trace";
    }
    const std::lock_guard lock(mutex_);
    dead_ = why;
    return why;
  }

  Result<void> execute(Call& call) {
    // A collective of nothing moves no data and meets nobody.
    if (call.info.collective != Collective::barrier && call.info.count == 0) return {};
    const collectives::CallContext context{call.info.sequence, call.info.timeout,
                                           call.info.started + call.info.timeout};
    switch (call.info.collective) {
      case Collective::all_reduce:
        return backend_->all_reduce(call.output, call.info.reduce, context);
      case Collective::broadcast:
        return backend_->broadcast(call.output, call.info.root, context);
      case Collective::all_gather:
        return backend_->all_gather(call.output, call.input, context);
      case Collective::barrier:
        return backend_->barrier(context);
    }
    return failure(Code::internal, "collective out of range");
  }

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
  const collectives::Informants informants_;
  const std::unique_ptr<Backend> backend_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable died_;  ///< dead_ was set from outside
  std::deque<std::shared_ptr<Call>> queue_;
  std::uint64_t next_sequence_ = 0;
  std::optional<Failure> dead_;  ///< set once: why no further collective can run
  bool given_up_ = false;        ///< the owner has aborted the group
  bool closed_ = false;
  bool running_ = false;

  std::mutex join_mutex_;
  std::thread worker_;
};

}  // namespace

std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Bootstrap> bootstrap, World world,
                                                 GroupOptions options) {
  return collectives::open_group(std::move(bootstrap), std::move(world), std::move(options));
}

std::shared_ptr<collectives::AbortableGroup> collectives::open_group(
    std::shared_ptr<Bootstrap> bootstrap, World world, GroupOptions options,
    Informants informants) {
  if (world.size == 0 || world.rank >= world.size) {
    throw_failure(failure(Code::invalid_argument, "process group \"" + world.name + "\": rank " +
                                                      std::to_string(world.rank) +
                                                      " does not fit size " +
                                                      std::to_string(world.size)));
  }
  if (options.timeout <= Duration{0} || options.open_timeout <= Duration{0}) {
    throw_failure(failure(Code::invalid_argument,
                          "process group \"" + world.name + "\": time-outs must be positive"));
  }
  if (!bootstrap) {
    throw_failure(
        failure(Code::invalid_argument, "process group \"" + world.name + "\": bootstrap is null"));
  }
  const BackendSetup setup{world, options, std::move(bootstrap)};
  auto backend = collectives::open_backend(setup);
  if (setup.thrown) std::rethrow_exception(setup.thrown);
  if (!backend) throw_failure(backend.error());
  return client::owned_by_this_process(
      new Group(std::move(world), std::move(options), std::move(*backend), std::move(informants)));
}

}  // namespace c10dd
