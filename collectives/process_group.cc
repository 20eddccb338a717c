// SPDX-License-Identifier: Apache-2.0
// Group: the implementation of ProcessGroup.
#include "collectives/process_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "client/internal/fork_guard.h"
#include "client/internal/throw_failure.h"
#include "collectives/abortable_group.h"
#include "collectives/backend.h"
#include "collectives/backend_names.h"
#include "collectives/call_queue.h"
#include "collectives/check_operation.h"
#include "collectives/coalesced_work.h"
#include "collectives/group_registry.h"
#include "collectives/issuing_threads.h"
#include "collectives/subgroup.h"
#include "protocol/format.h"

namespace c10dd {

using client::throw_failure;
using collectives::BackendSetup;
using collectives::CallQueue;

namespace {

/// The handle of a group. Its queue may outlive it, because a Work that is kept needs the queue.
class Group final : public collectives::AbortableGroup {
 public:
  /// Returns a group that the registry knows until it is destroyed.
  static std::shared_ptr<Group> make(std::shared_ptr<CallQueue> queue,
                                     collectives::GroupContext context) {
    if (context.family.empty()) context.family = queue->world().name;
    const auto group =
        client::owned_by_this_process(new Group(std::move(queue), std::move(context)));
    group->registration_ = collectives::GroupRegistry::instance().add(
        group, group->context_.family, group->context_.membership.get());
    return group;
  }

  ~Group() override {
    registration_.reset();
    queue_->destroy();
  }

  WorkPtr issue(Operation operation, CallOptions options) override {
    require_home();
    check(operation, options);
    WorkPtr work = queue_->issue(std::move(operation), options.async);
    if (!options.async) work->wait();
    return work;
  }

  WorkPtr coalesce(std::vector<Operation> operations, CallOptions options) override {
    require_home();
    if (operations.empty()) {
      throw_failure(failure(Code::invalid_argument, "coalesce: the list of operations is empty"));
    }
    for (Operation& operation : operations) check(operation, options);
    number_batch(operations);
    std::vector<WorkPtr> works;
    for (Operation& operation : operations) {
      works.push_back(queue_->issue(std::move(operation), true));
    }
    WorkPtr work = std::make_shared<collectives::CoalescedWork>(std::move(works));
    if (!options.async) work->wait();
    return work;
  }

  Tensor allocate(DType dtype, std::size_t count, Device device) override {
    require_home();
    collectives::check_allocation(dtype, count);
    const std::size_t bytes = std::max<std::size_t>(count * size_of(dtype), 1);
    auto memory = allocate_bytes(bytes, device);
    if (!memory) throw_failure(memory.error());
    return {.data = memory->get(),
            .count = count,
            .dtype = dtype,
            .device = device,
            .owner = std::move(*memory)};
  }

  std::shared_ptr<ProcessGroup> new_group(const std::vector<Rank>& ranks,
                                          SubgroupOptions options) override {
    require_home();
    require_usable("new_group");
    World child = collectives::subworld(world(), ranks, options);
    const std::string list = child.name;
    child.name = name_of_child(list);
    if (!context_.among) {
      throw_failure(failure(Code::unsupported,
                            "new_group: process group \"{}\" was opened with its own Bootstrap, "
                            "whose exchanges need all ranks; use split",
                            world().name));
    }
    const collectives::Exchange exchange =
        collectives::naming_the_missing(context_.among(ranks, child.name), child);
    return opened(
        context_.open_child({.world = std::move(child),
                             .options = collectives::options_of(queue_->options(), options),
                             .exchange = exchange,
                             .family = context_.family}),
        list);
  }

  std::shared_ptr<ProcessGroup> split(std::int32_t color, std::int32_t key,
                                      SubgroupOptions options) override {
    require_home();
    const GroupOptions own =
        collectives::with_backend(collectives::options_of(queue_->options(), options));
    collectives::check_options(own, world());
    const collectives::SplitPlan plan =
        collectives::plan_split(*this, color, key, backend_->splits(own));
    const std::vector<Rank>& ranks = plan.ranks;
    const std::size_t exchanges = plan.by_backend ? 1 : collectives::exchanges_of(own.backend);
    if (ranks.empty()) {
      for (std::size_t i = 0; i < exchanges; ++i) exchange_nothing();
      if (plan.by_backend) leave_split();
      return nullptr;
    }
    const auto exchanged = std::make_shared<std::size_t>(0);
    const auto entered = std::make_shared<bool>(false);  // the backend's split
    const auto exchange = [this, ranks, exchanged](ExchangeShape shape,
                                                   std::vector<std::string> parts,
                                                   Duration timeout) {
      ++*exchanged;
      return collectives::exchange_over(*this, ranks, shape, std::move(parts), timeout);
    };
    try {
      collectives::ChildGroup child{.world = collectives::subworld(world(), ranks, options),
                                    .options = own,
                                    .exchange = exchange,
                                    .family = context_.family};
      if (plan.by_backend) {
        child.open = [this, color, entered](const BackendSetup& setup) {
          *entered = true;
          return backend_->split(&setup, color, static_cast<int>(setup.world.rank),
                                 open_deadline());
        };
      }
      const std::string list = child.world.name;
      child.world.name = name_of_child(list);
      return opened(context_.open_child(std::move(child)), list);
    } catch (const std::exception&) {
      // The other ranks exchange their addresses and split in any case, and need this rank for it.
      for (; *exchanged < exchanges; ++*exchanged) exchange_nothing();
      if (plan.by_backend && !*entered) static_cast<void>(leave_backend_split());
      throw;
    }
  }

  void monitored_barrier(std::optional<Duration> timeout) override {
    require_home();
    const Duration limit = timeout.value_or(queue_->options().timeout);
    if (limit <= Duration{0}) {
      throw_failure(failure(Code::invalid_argument,
                            "the time-out for monitored_barrier must be positive, got {} ns",
                            limit.count()));
    }
    if (!context_.meet) {
      throw_failure(failure(Code::unsupported,
                            "monitored_barrier: process group \"{}\" was opened without a daemon; "
                            "use barrier",
                            world().name));
    }
    require_usable("monitored_barrier");
    try {
      context_.meet(limit);
    } catch (const TimedOut& late) {
      throw_failure(collectives::missed(world(), "monitored_barrier", limit, late));
    }
  }

  const World& world() const override { return queue_->world(); }
  std::string_view backend() const override { return queue_->options().backend; }
  std::string describe() const override { return backend_->describe(); }

  void abort(const std::string& reason) override { abort(failure(Code::aborted, reason), true); }

  void abort(Failure reason) override { abort(reason, false); }

  std::function<void(const Failure&)> aborter() override {
    return [queue = std::weak_ptr(queue_)](const Failure& reason) {
      if (const auto open = queue.lock()) open->abort(reason, true);
    };
  }

  void shutdown() override {
    require_home();
    queue_->close();
  }

 private:
  Group(std::shared_ptr<CallQueue> queue, collectives::GroupContext context)
      : context_(std::move(context)), queue_(std::move(queue)), backend_(queue_->backend()) {}

  /// Throws if the group was closed or has failed.
  void require_usable(const char* function) const {
    auto why = queue_->unusable();
    if (!why) return;
    why->detail = format("{}: {}", function, why->detail);
    throw_failure(*why);
  }

  Result<std::shared_ptr<void>> allocate_bytes(std::size_t bytes, Device device) try {
    return backend_->allocate(bytes, device);
  } catch (const std::bad_alloc&) {
    return failure(Code::unavailable, "allocate: not enough memory for {} bytes", bytes);
  }

  /// Returns the name of the next group with this list of ranks: several can be open at a time. All
  /// its ranks count alike, because they open such groups together.
  std::string name_of_child(const std::string& list) {
    const std::lock_guard lock(mutex_);
    const auto found = children_.find(list);
    return found == children_.end() ? list : format("{}#{}", list, found->second + 1);
  }

  /// Counts a group with this list of ranks.
  std::shared_ptr<ProcessGroup> opened(std::shared_ptr<ProcessGroup> child,
                                       const std::string& list) {
    const std::lock_guard lock(mutex_);
    ++children_[list];
    return child;
  }

  void require_home() const { home_.require("process group", "open another one"); }

  /// Sets the fields that the caller leaves to the group. Throws if the operation is refused.
  void check(Operation& operation, const CallOptions& options) const {
    operation.timeout = options.timeout.value_or(queue_->options().timeout);
    collectives::clear_unused(operation);
    collectives::check(operation, world(), *backend_, backend());
    if (info_of(operation.collective).root == Root::none) operation.root = 0;
    operation.batch = 0;
    operation.following = 0;
  }

  /// Sets Operation::batch and following. Sends and receives are counted apart, because backends
  /// run them apart from the collectives. Operations that the backend does not get are not counted.
  void number_batch(std::vector<Operation>& operations) {
    const std::uint64_t batch = ++batches_;
    std::uint32_t messages = 0;
    std::uint32_t collectives = 0;
    for (auto it = operations.rbegin(); it != operations.rend(); ++it) {
      if (it->is_empty()) continue;
      it->batch = batch;
      it->following = (info_of(it->collective).message ? messages : collectives)++;
    }
  }

  /// Takes part in the exchange of split() without parts.
  void exchange_nothing() {
    collectives::exchange_over(*this, {}, ExchangeShape::transpose, {},
                               queue_->options().open_timeout);
  }

  std::chrono::steady_clock::time_point open_deadline() const {
    return std::chrono::steady_clock::now() + queue_->options().open_timeout;
  }

  /// Takes part in a split by the backend without being in a part.
  void leave_split() {
    const auto none = leave_backend_split();
    if (!none) throw_failure(none.error());
  }

  Result<std::unique_ptr<collectives::Backend>> leave_backend_split() {
    constexpr int kNoColor = -1;
    return backend_->split(nullptr, kNoColor, 0, open_deadline());
  }

  void abort(const Failure& reason, bool says_all) {
    require_home();
    queue_->abort(reason, says_all);
  }

  const client::HomeProcess home_;
  const collectives::GroupContext context_;
  const std::shared_ptr<CallQueue> queue_;
  const std::shared_ptr<collectives::Backend> backend_;
  std::shared_ptr<void> registration_;
  std::atomic<std::uint64_t> batches_ = 0;    // calls of coalesce()
  std::mutex mutex_;                          // guards children_
  std::map<std::string, unsigned> children_;  // how many groups of each list of ranks were opened
};

}  // namespace

std::size_t ProcessGroup::abort_all(const std::string& name, std::uint64_t generation,
                                    const std::string& reason) {
  return collectives::GroupRegistry::instance().abort(name, generation, reason);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as each open() takes what it shares
std::shared_ptr<ProcessGroup> ProcessGroup::open(std::shared_ptr<Bootstrap> bootstrap, World world,
                                                 GroupOptions options) {
  return collectives::open_group(bootstrap, std::move(world), std::move(options));
}

std::shared_ptr<collectives::AbortableGroup> collectives::group_over(
    std::shared_ptr<Backend> backend, World world, GroupOptions options, GroupContext context) {
  for (Rank rank = 0; world.members.size() < world.size; ++rank) world.members.push_back({rank});
  // The queue may outlive the group, which alone keeps the rest.
  GroupContext of_queue{.reason_patience = context.reason_patience, .explain = context.explain};
  auto queue = std::make_shared<CallQueue>(std::move(world), std::move(options), std::move(backend),
                                           std::move(of_queue));
  return Group::make(std::move(queue), std::move(context));
}

std::shared_ptr<collectives::AbortableGroup> collectives::open_group(
    const std::shared_ptr<Bootstrap>& bootstrap, World world, GroupOptions options,
    GroupContext context) {
  if (world.size == 0 || world.rank >= world.size) {
    throw_failure(failure(Code::invalid_argument,
                          "process group \"{}\": rank {} must be below the world size {}",
                          world.name, world.rank, world.size));
  }
  check_options(options, world);
  note_issuing_thread();
  if (!bootstrap) {
    throw_failure(
        failure(Code::invalid_argument, "process group \"{}\": bootstrap is null", world.name));
  }
  options = with_backend(std::move(options));
  const BackendSetup setup{world, options, bootstrap};
  auto backend =
      context.open_backend ? context.open_backend(setup) : collectives::open_backend(setup);
  if (setup.thrown) std::rethrow_exception(setup.thrown);
  if (!backend) throw_failure(backend.error());
  const std::vector<ProcessAddress> processes = bootstrap->processes();
  if (world.members.empty() && processes.size() == world.size) {
    for (Rank rank = 0; rank < world.size; ++rank) {
      world.members.push_back({rank, processes[rank]});
    }
  }
  if (!context.open_child) {
    context.open_child = [bootstrap](ChildGroup child) {
      return open_group(std::make_shared<SubgroupBootstrap>(std::move(child.exchange), bootstrap),
                        std::move(child.world), std::move(child.options),
                        {.family = std::move(child.family), .open_backend = std::move(child.open)});
    };
  }
  return group_over(std::move(*backend), std::move(world), std::move(options), std::move(context));
}

}  // namespace c10dd
