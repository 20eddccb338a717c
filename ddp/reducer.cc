// SPDX-License-Identifier: Apache-2.0
// The state of a training step: which gradients are ready, and which buckets have been issued. One
// lock guards this state, but gradients are copied without the lock.
#include "ddp/reducer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "ddp/agreement.h"
#include "protocol/format.h"

namespace c10dd::ddp {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t to_bytes(double megabytes) {
  if (!(megabytes > 0) || megabytes > 1e6) {  // the negation also refuses NaN
    throw InvalidArgument(
        format("the bucket cap is {:f} MB, but must be above 0 and at most 1000000 MB", megabytes));
  }
  return std::max<std::size_t>(static_cast<std::size_t>(megabytes * (1 << 20)), 1);
}

void copy(const Tensor& to, const Tensor& from) {
  if (from.count > 0 && to.data != from.data) std::memcpy(to.data, from.data, from.bytes());
}

}  // namespace

double ReducerStats::overlap() const {
  if (communication_seconds <= 0) return 0;
  return std::clamp(1 - exposed_seconds / communication_seconds, 0.0, 1.0);
}

struct Reducer::State {
  /// A bucket's memory and its progress in the current step.
  struct Slot {
    Tensor memory;
    std::size_t waiting = 0;  // number of parameters that are not ready yet
    WorkPtr work;             // the bucket's collective; null until it is issued
  };

  ProcessGroup& group;
  const std::vector<Parameter> parameters;
  std::vector<Bucket> plan;
  std::vector<Tensor> views;           // the place of each parameter in its bucket
  std::vector<std::size_t> bucket_of;  // index of each parameter's bucket

  mutable std::mutex mutex;  // guards all members that follow, but not the memory of the slots
  std::vector<bool> marked;
  std::vector<Slot> slots;   // one for each bucket of `plan`, in the same order
  std::size_t launched = 0;  // number of slots whose collective was issued in this step
  ReducerStats stats;

  State(ProcessGroup& g, std::vector<Parameter> p) : group(g), parameters(std::move(p)) {}

  std::string named(std::size_t index) const {
    return format("{} \"{}\"", index, parameters[index].name);
  }

  void check_parameters() const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      check_value(i);
      const Tensor& gradient = parameters[i].gradient;
      const Tensor& value = parameters[i].value;
      if (gradient.data == nullptr) continue;
      if (gradient.count != value.count || gradient.dtype != value.dtype) {
        throw InvalidArgument(format(
            "parameter {}: the gradient has {} {} elements, but the value has {} {}", named(i),
            gradient.count, name_of(gradient.dtype), value.count, name_of(value.dtype)));
      }
    }
  }

  void check_value(std::size_t index) const {
    const auto& [name, value, shape, gradient] = parameters[index];
    if (value.dtype != DType::float32 && value.dtype != DType::float64) {
      throw InvalidArgument(
          format("parameter {} has type {}, but the reducer averages only float32 and float64; "
                 "convert it",
                 named(index), name_of(value.dtype)));
    }
    std::string extents;
    std::size_t elements = 1;
    for (const std::size_t extent : shape) {
      extents += (extents.empty() ? "" : ",") + std::to_string(extent);
      // On overflow, uses an element count that no tensor can have. Then the check below fails.
      if (__builtin_mul_overflow(elements, extent, &elements)) elements = ~std::size_t{0};
    }
    if (elements == value.count) return;
    throw InvalidArgument(format(
        "parameter {} has shape [{}], but its value has {} elements; the product of the shape must "
        "equal the number of elements",
        named(index), extents, value.count));
  }

  void build(const BucketLimits& limits) {
    std::vector<GradientSize> sizes;
    for (const Parameter& p : parameters) sizes.push_back({p.value.count, p.value.dtype});
    plan = plan_buckets(sizes, limits);
    views.resize(parameters.size());
    bucket_of.resize(parameters.size());
    marked.resize(parameters.size());
    for (std::size_t b = 0; b < plan.size(); ++b) {
      const Bucket& bucket = plan[b];
      slots.push_back(
          {group.allocate(bucket.dtype, bucket.count), bucket.parameters.size(), nullptr});
      stats.bytes += slots[b].memory.bytes();
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        const std::size_t parameter = bucket.parameters[i];
        bucket_of[parameter] = b;
        views[parameter] =
            slots[b].memory.slice(bucket.offsets[i], parameters[parameter].value.count);
      }
    }
    stats.buckets = plan.size();
  }

  // Broadcasts the parameters through the memory of the buckets: one broadcast per bucket.
  void broadcast_parameters() {
    const bool source = group.rank() == 0;
    if (source) {
      for (std::size_t i = 0; i < parameters.size(); ++i) copy(views[i], parameters[i].value);
    }
    for (Slot& slot : slots) slot.work = group.broadcast(slot.memory, 0, {.async = true});
    wait_for_all();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!source) copy(parameters[i].value, views[i]);
    }
    // From here on the buckets hold gradients, which start at zero.
    for (Slot& slot : slots) {
      std::memset(slot.memory.data, 0, slot.memory.bytes());
      slot.work.reset();
    }
  }

  // Waits for every bucket, even after one has failed, and then throws the first failure. After
  // this function has ended, no backend accesses the memory of the buckets.
  void wait_for_all() {
    std::exception_ptr first;
    for (Slot& slot : slots) {
      try {
        if (slot.work) slot.work->wait();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  // Issues the complete buckets in order and stops before the first incomplete one, because all
  // ranks must issue the buckets in the same order. Called with the lock held.
  void launch_full_buckets() {
    while (launched < slots.size() && slots[launched].waiting == 0) {
      slots[launched].work =
          group.all_reduce(slots[launched].memory, ReduceOp::avg, {.async = true});
      ++launched;
    }
  }

  // Ends the step and begins the next one. If `averaged` is true, first copies the averages from
  // the buckets into the gradients that have memory of their own.
  void end_step(std::chrono::duration<double> blocked, bool averaged) {
    for (std::size_t i = 0; averaged && i < parameters.size(); ++i) {
      const Tensor& own = parameters[i].gradient;
      if (own.data != nullptr) copy(own, views[i]);
    }
    const std::lock_guard lock(mutex);
    for (std::size_t b = 0; b < slots.size(); ++b) {
      const std::chrono::duration<double> spent = slots[b].work->duration();
      stats.communication_seconds += spent.count();
      slots[b].work.reset();
      slots[b].waiting = plan[b].parameters.size();
    }
    stats.exposed_seconds += blocked.count();
    ++stats.steps;
    launched = 0;
    marked.assign(parameters.size(), false);
  }

  /// Ends the group on all ranks, because this one cannot go on, and the others would wait for it
  /// until their time-out.
  void give_up(const std::string& why) const {
    if (group.size() > 1) group.abort(format("rank {}: {}", group.rank(), why));
  }

  /// Says which parameters are not marked; empty if all are.
  std::string unmarked() const {
    constexpr std::size_t kNamed = 5;
    std::string names;
    std::size_t count = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (marked[i]) continue;
      if (count < kNamed) names += (count > 0 ? ", " : "") + named(i);
      ++count;
    }
    if (count == 0) return {};
    return format("{} of {} parameters were not marked ready: {}{}", count, parameters.size(),
                  names, count > kNamed ? ", ..." : "");
  }
};

Reducer::Reducer(ProcessGroup& group, std::vector<Parameter> parameters, ReducerOptions options)
    : state_(std::make_unique<State>(group, std::move(parameters))) {
  const BucketLimits limits{to_bytes(options.first_bucket_cap_mb), to_bytes(options.bucket_cap_mb)};
  state_->check_parameters();
  require_equal_parameters(group, state_->parameters);
  state_->build(limits);
  if (options.broadcast_parameters) state_->broadcast_parameters();
}

Reducer::~Reducer() {
  try {
    const bool in_step = std::ranges::find(state_->marked, true) != state_->marked.end();
    if (in_step) state_->give_up("its reducer was destroyed during a step: " + state_->unmarked());
    state_->wait_for_all();
  } catch (const std::exception&) {
    // A destructor cannot report a failure. finish() reports failures to the trainer.
  }
}

Tensor Reducer::gradient(std::size_t parameter) const {
  const State& s = *state_;
  if (parameter >= s.parameters.size()) {
    throw InvalidArgument(format("parameter {} is out of range: there are {} parameters", parameter,
                                 s.parameters.size()));
  }
  const Tensor& own = s.parameters[parameter].gradient;
  return own.data != nullptr ? own : s.views[parameter];
}

void Reducer::mark_ready(std::size_t parameter) {
  State& s = *state_;
  const Tensor from = gradient(parameter);
  {
    const std::lock_guard lock(s.mutex);
    if (s.marked[parameter]) {
      throw InvalidArgument("parameter " + s.named(parameter) +
                            " was marked ready twice in one step");
    }
    s.marked[parameter] = true;
  }
  // The copy needs no lock, because each parameter has its own part of the bucket. The bucket is
  // issued only after the copy, because `waiting` is decreased after the copy.
  copy(s.views[parameter], from);
  const std::lock_guard lock(s.mutex);
  --s.slots[s.bucket_of[parameter]].waiting;
  s.launch_full_buckets();
}

void Reducer::finish() {
  State& s = *state_;
  std::string missing;
  {
    const std::lock_guard lock(s.mutex);
    if (s.launched < s.slots.size()) missing = s.unmarked();
  }
  if (!missing.empty()) {
    missing = "finish: " + missing + "; every parameter needs a gradient in every step";
    s.give_up(missing);
    throw InvalidArgument(missing);
  }
  const auto begin = Clock::now();
  std::exception_ptr failed;
  try {
    s.wait_for_all();
  } catch (const std::exception&) {
    failed = std::current_exception();
  }
  s.end_step(Clock::now() - begin, !failed);
  if (failed) std::rethrow_exception(failed);
}

const std::vector<Bucket>& Reducer::buckets() const { return state_->plan; }

ReducerStats Reducer::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace c10dd::ddp
