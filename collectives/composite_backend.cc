// SPDX-License-Identifier: Apache-2.0
// A backend for each kind of device. An operation goes to the backend of its tensors' device.
#include "collectives/composite_backend.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/call_queue.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

// What one part takes at once is limited by the part.
constexpr std::size_t kInFlight = 1024;

class CompositeBackend final : public Backend {
 public:
  using Part = BackendPart;

  explicit CompositeBackend(std::vector<Part> parts)
      : parts_(std::move(parts)), tells_begin_(std::ranges::any_of(parts_, [](const Part& part) {
          return part.backend->traits().tells_begin;
        })) {}

  Traits traits() const override {
    Traits all{.in_flight = kInFlight, .tells_begin = tells_begin_};
    for (const Part& part : parts_) {
      const Traits one = part.backend->traits();
      all.on_callers_thread = all.on_callers_thread && one.on_callers_thread;
      all.needs_progress = all.needs_progress || one.needs_progress;
    }
    return all;
  }

  bool supports(Collective collective, DType dtype, ReduceOp reduce, Device device) const override {
    return part_of(device.kind).backend->supports(collective, dtype, reduce, device);
  }

  std::string refuses(const Operation& message) const override {
    return part_of(message.common().device.kind).backend->refuses(message);
  }

  bool starts_at_once(const Operation& operation) const override {
    return part_of(operation.common().device.kind).backend->starts_at_once(operation);
  }

  void start(const Operation& operation, Completion& completion) override {
    Part& part = parts_[index_of(operation.common().device.kind)];
    const bool message = info_of(operation.collective).message;
    if (!message) take_place(part);
    auto* const part_done = new PartCompletion(*this, part, message, completion);
    if (tells_begin_ && !part.backend->traits().tells_begin) completion.begun();
    try {
      part.backend->start(operation, *part_done);
    } catch (...) {  // nothing was started
      part_done->forget();
      throw;
    }
  }

  void progress() override {
    for (const Part& part : parts_) part.backend->progress();
  }

  void abort(const std::string& reason) override {
    for (const Part& part : parts_) part.backend->abort(reason);
  }

  Result<std::shared_ptr<void>> allocate(std::size_t bytes, Device device) override {
    return part_of(device.kind).backend->allocate(bytes, device);
  }

  std::string describe() const override {
    std::string text;
    for (const Part& part : parts_) {
      text +=
          format("{}{}: {}", text.empty() ? "" : "; ",
                 part.name.kind == Device::Kind::cpu ? "cpu" : "cuda", part.backend->describe());
    }
    return text;
  }

 private:
  /// Passes the end of an operation on, and frees itself.
  class PartCompletion final : public Completion {
   public:
    PartCompletion(CompositeBackend& owner, Part& part, bool message, Completion& completion)
        : owner_(owner), part_(part), message_(message), completion_(completion) {}

    void complete(Result<void> result) noexcept override {
      if (!result) result = owner_.fail(part_, result.error());
      forget_then([&](Completion& to) { to.complete(std::move(result)); });
    }

    void complete_message(Result<Received> result) noexcept override {
      // A message of the wrong size leaves the group usable.
      if (!result && result.error().code != Code::size_mismatch) {
        result = owner_.fail(part_, result.error());
      }
      forget_then([&](Completion& to) { to.complete_message(std::move(result)); });
    }

    void enqueued(std::shared_ptr<DeviceEnd> end) noexcept override {
      completion_.enqueued(std::move(end));
    }

    void begun() noexcept override { completion_.begun(); }

    /// Gives the place in the part back, and frees this object.
    void forget() noexcept {
      if (!message_) owner_.give_place_back(part_);
      delete this;
    }

   private:
    /// The completion may destroy the group, so it comes last.
    template <class F>
    void forget_then(F call) noexcept {
      Completion& completion = completion_;
      forget();
      call(completion);
    }

    CompositeBackend& owner_;
    Part& part_;
    const bool message_;
    Completion& completion_;
  };

  std::size_t index_of(Device::Kind kind) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].name.kind == kind) return i;
    }
    return 0;
  }
  const Part& part_of(Device::Kind kind) const { return parts_[index_of(kind)]; }

  /// Blocks until the part takes another operation.
  void take_place(Part& part) {
    const std::size_t limit = part.backend->traits().in_flight;
    std::unique_lock lock(mutex_);
    while (part.in_flight >= limit) {
      lock.unlock();
      part.backend->progress();
      lock.lock();
      if (part.in_flight >= limit) changed_.wait_for(lock, CallQueue::kProgressPeriod);
    }
    ++part.in_flight;
  }

  void give_place_back(Part& part) {
    const std::lock_guard lock(mutex_);
    --part.in_flight;
    changed_.notify_all();
  }

  /// Ends the group after the first failure of a part. Returns the failure of all its operations.
  Failure fail(const Part& failed, const Failure& seen) {
    {
      const std::lock_guard lock(mutex_);
      if (dead_) return *dead_;
      dead_ = seen;
    }
    for (const Part& part : parts_) {
      if (&part != &failed) part.backend->abort(seen.detail);
    }
    return seen;
  }

  std::vector<Part> parts_;
  const bool tells_begin_;  // of some part
  std::mutex mutex_;        // guards the numbers in flight, and the members below
  std::condition_variable changed_;
  std::optional<Failure> dead_;
};

/// Fails on every rank unless all ranks have the same names.
Result<void> agree(const BackendSetup& setup) {
  const auto names = all(setup, setup.options.backend);
  if (!names) return names.error();
  std::vector<Rank> different;
  for (Rank rank = 1; rank < names->size(); ++rank) {
    if ((*names)[rank] != names->front()) different.push_back(rank);
  }
  if (different.empty()) return {};
  return failure(
      Code::invalid_argument,
      "process group \"{}\": rank 0 uses backend \"{}\", but {} {} \"{}\"; all ranks must use "
      "the same",
      setup.world.name, names->front(), named(different), different.size() == 1 ? "uses" : "use",
      (*names)[different.front()]);
}

}  // namespace

std::unique_ptr<Backend> compose(std::vector<BackendPart> parts) {
  return std::make_unique<CompositeBackend>(std::move(parts));
}

Result<std::unique_ptr<Backend>> open_composite(const BackendSetup& setup) {
  const auto names = split_names(setup.options.backend);
  if (!names) return names.error();
  if (Result<void> agreed = agree(setup); !agreed) return agreed.error();
  std::vector<BackendPart> parts;
  std::optional<Failure> failed;
  for (const BackendName& name : *names) {
    BackendSetup own{setup.world, setup.options, setup.bootstrap};
    own.options.backend = name.name;
    auto backend = open_backend(own);
    if (own.thrown) setup.thrown = own.thrown;
    // The other ranks open the next backend in any case, and need this rank for its exchange.
    if (backend) parts.push_back({name, std::move(*backend)});
    if (!backend && !failed) failed = backend.error();
    if (setup.thrown) break;
  }
  if (failed) return *failed;
  return compose(std::move(parts));
}

}  // namespace c10dd::collectives
