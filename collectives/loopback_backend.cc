// SPDX-License-Identifier: Apache-2.0
// The loopback backend: the ranks are threads of one process. The last rank to arrive computes for
// all ranks, in rank order, so that results are equal on every run. A collective fails if the ranks
// issue different collectives. After a time-out, the failure names the missing ranks.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/backend.h"
#include "collectives/loopback_messages.h"
#include "collectives/reduce.h"
#include "collectives/wide_average.h"
#include "collectives/wording.h"
#include "protocol/random.h"

namespace c10dd::collectives {
namespace {

bool matches(const Operation& a, const Operation& b) {
  const OperationInfo& info = info_of(a.collective);
  return a.collective == b.collective && a.sequence == b.sequence && a.root == b.root &&
         a.lists == b.lists && (a.lists || a.common().count == b.common().count) &&
         a.common().dtype == b.common().dtype && (!info.reduces || a.reduce.kind == b.reduce.kind);
}

using Ranks = std::vector<const Operation*>;  // the same operation, as each rank has issued it

void copy(const Tensor& to, const Tensor& from) {
  // Uses memmove, because the elements may already be in their place.
  if (from.count > 0) std::memmove(to.data, from.data, from.bytes());
}

/// Computes the reduction in place of the tensors of all ranks, and stores it in all of them.
void all_reduce(const Ranks& ranks) {
  const Operation& first = *ranks.front();
  const ReduceFunction combine = reduce_function(first.output.dtype, first.reduce);
  prepare(first.output, first.reduce, static_cast<Rank>(ranks.size()));
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const Tensor& other = ranks[i]->output;
    prepare(other, ranks[i]->reduce, static_cast<Rank>(ranks.size()));
    combine(first.output.data, first.output.data, other.data, other.count);
  }
  finish(first.output, first.reduce, static_cast<Rank>(ranks.size()));
  for (std::size_t i = 1; i < ranks.size(); ++i) copy(ranks[i]->output, first.output);
}

/// Stores the reduction of part(rank) over all ranks in `to`. Changes no other tensor.
template <class Part>
void reduce(const Ranks& ranks, Part part, const Tensor& to) {
  const Operation& first = *ranks.front();
  std::vector<std::byte> memory(2 * to.bytes());
  Tensor result = to;
  result.data = memory.data();
  Tensor prepared = to;
  prepared.data = memory.data() + to.bytes();
  const ReduceFunction combine = reduce_function(to.dtype, first.reduce);
  copy(result, part(first));
  prepare(result, first.reduce, static_cast<Rank>(ranks.size()));
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    copy(prepared, part(*ranks[i]));
    prepare(prepared, ranks[i]->reduce, static_cast<Rank>(ranks.size()));
    combine(result.data, result.data, prepared.data, result.count);
  }
  finish(result, first.reduce, static_cast<Rank>(ranks.size()));
  copy(to, result);
}

void gather(const Ranks& ranks, const Tensor& output) {
  const std::size_t count = ranks.front()->input.count;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    copy(output.slice(i * count, count), ranks[i]->input);
  }
}

void reduce_scatter(const Ranks& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Tensor& output = ranks[i]->output;
    const auto part = [&](const Operation& rank) {
      return rank.input.slice(i * output.count, output.count);
    };
    reduce(ranks, part, output);
  }
}

void all_to_all(const Ranks& ranks) {
  const std::size_t count = ranks.front()->input.count / ranks.size();
  for (std::size_t to = 0; to < ranks.size(); ++to) {
    for (std::size_t from = 0; from < ranks.size(); ++from) {
      copy(ranks[to]->output.slice(from * count, count),
           ranks[from]->input.slice(to * count, count));
    }
  }
}

/// Calls f(from, to, tensor of `from`, tensor of `to`) for all tensors that are copied in an
/// operation with lists that does not reduce.
template <class F>
void each_copy(const Ranks& ranks, F f) {
  for (Rank from = 0; from < ranks.size(); ++from) {
    for (Rank to = 0; to < ranks.size(); ++to) {
      const Tensor* const sent = ranks[from]->sent(to);
      const Tensor* const received = ranks[to]->received(from);
      if (sent != nullptr && received != nullptr) f(from, to, *sent, *received);
    }
  }
}

/// Returns a failure if two ranks disagree about the size of a tensor of a list.
Result<void> check_lists(const Ranks& ranks) {
  Result<void> result;
  const auto check = [&](Rank from, Rank to, const Tensor& sent, const Tensor& received) {
    if (sent.count == received.count || !result) return;
    result = sizes_differ(*ranks.front(), from, sent.count, to, received.count);
  };
  if (!info_of(ranks.front()->collective).reduces) {
    each_copy(ranks, check);
    return result;
  }
  for (Rank from = 0; from < ranks.size(); ++from) {
    for (Rank to = 0; to < ranks.size(); ++to) {
      check(from, to, ranks[from]->inputs[to], ranks[to]->output);
    }
  }
  return result;
}

/// Runs an operation with lists.
void compute_lists(const Ranks& ranks) {
  if (!info_of(ranks.front()->collective).reduces) {
    return each_copy(ranks, [](Rank, Rank, const Tensor& sent, const Tensor& received) {
      copy(received, sent);
    });
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    reduce(
        ranks, [i](const Operation& rank) { return rank.inputs[i]; }, ranks[i]->output);
  }
}

/// Runs the operation on the tensors of all ranks.
void compute(const Ranks& ranks) {
  if (WideAverage::suits(*ranks.front())) {
    std::vector<WideAverage> wide;
    for (const Operation* const one : ranks) wide.emplace_back(*one);
    Ranks on_wide;
    for (const WideAverage& one : wide) on_wide.push_back(&one.operation());
    compute(on_wide);
    const Operation& first = *ranks.front();
    for (Rank rank = 0; rank < ranks.size(); ++rank) {
      if (first.collective != Collective::reduce || first.root == rank) wide[rank].store();
    }
    return;
  }
  if (ranks.front()->lists) return compute_lists(ranks);
  const Operation& root = *ranks[ranks.front()->root];
  switch (root.collective) {
    case Collective::all_reduce:
      return all_reduce(ranks);
    case Collective::reduce:
      return reduce(
          ranks, [](const Operation& rank) { return rank.output; }, root.output);
    case Collective::broadcast:
      for (const Operation* rank : ranks) copy(rank->output, root.output);
      return;
    case Collective::all_gather:
      for (const Operation* rank : ranks) gather(ranks, rank->output);
      return;
    case Collective::reduce_scatter:
      return reduce_scatter(ranks);
    case Collective::gather:
      return gather(ranks, root.output);
    case Collective::scatter:
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const std::size_t count = ranks[i]->output.count;
        copy(ranks[i]->output, root.input.slice(i * count, count));
      }
      return;
    case Collective::all_to_all:
      return all_to_all(ranks);
    case Collective::barrier:
    case Collective::send:  // LoopbackMessages runs the messages
    case Collective::recv:
      return;
  }
}

/// One process group: keeps the arguments of each rank for the current operation until all ranks
/// have arrived. Thread-safe.
class LoopbackGroup {
 public:
  explicit LoopbackGroup(Rank size)
      : arrivals_(size), messages_(size, [this](const Failure& late) { fail(late); }) {}

  LoopbackMessages& messages() { return messages_; }

  /// Blocks until all ranks have called run() for this operation, at most until the deadline.
  Result<void> run(Rank rank, const Operation& operation) {
    const Result<void> result = meet(rank, operation);
    if (!result) messages_.fail(result.error());
    return result;
  }

  void abort(const std::string& reason) {
    fail(failure(Code::aborted, "loopback group aborted: " + reason));
  }

 private:
  void fail(const Failure& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!dead_) die(reason);
    }
    messages_.fail(reason);
  }

  Result<void> meet(Rank rank, const Operation& operation) {
    std::unique_lock lock(mutex_);
    if (dead_) return *dead_;
    const std::uint64_t round = round_;
    arrivals_[rank] = &operation;
    if (++arrived_ == arrivals_.size()) {
      finish_round();
    } else if (!changed_.wait_until(lock, operation.deadline,
                                    [&] { return dead_ || round_ != round; })) {
      die(time_out(operation));
    }
    if (round_ != round) return {};
    arrivals_[rank] = nullptr;  // the operation ends with run()
    return *dead_;
  }

  // Computes the operation, increases round_ and wakes the ranks. If the ranks' arguments differ,
  // computes nothing and makes the group fail. Called under the lock, after all ranks have arrived.
  void finish_round() {
    const Operation& first = *arrivals_.front();
    std::vector<Rank> different;
    for (Rank rank = 1; rank < arrivals_.size(); ++rank) {
      if (!matches(*arrivals_[rank], first)) different.push_back(rank);
    }
    if (!different.empty()) {
      die(issued_differently(different, text_of(*arrivals_[different.front()]), text_of(first)));
      return;
    }
    if (first.lists) {
      const Result<void> fits = check_lists(arrivals_);
      if (!fits) return die(fits.error());
    }
    compute(arrivals_);
    std::fill(arrivals_.begin(), arrivals_.end(), nullptr);
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  Failure time_out(const Operation& operation) const {
    std::vector<Rank> missing;
    for (Rank other = 0; other < arrivals_.size(); ++other) {
      if (arrivals_[other] == nullptr) missing.push_back(other);
    }
    Failure late = failure(Code::timed_out, "{} timed out after {}: {} of {} ranks missing: {}",
                           text_of(operation), human(operation.timeout), missing.size(),
                           arrivals_.size(), folded(missing));
    for (const Rank other : missing) {
      late.missing.push_back({.rank = other, .cause = MissingRank::Cause::not_arrived, .host = {}});
    }
    return late;
  }

  void die(Failure reason) {
    dead_ = std::move(reason);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;  ///< round_ or dead_ has changed
  Ranks arrivals_;                   ///< indexed by rank; null: not arrived yet
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;      ///< number of operations that were computed
  std::optional<Failure> dead_;  ///< if set, no operation can run any more; never reset
  LoopbackMessages messages_;
};

/// All groups of this process. Rank 0 sends the key of a group to the other ranks. Thread-safe.
class LoopbackGroups {
 public:
  static LoopbackGroups& instance() {
    static LoopbackGroups groups;
    return groups;
  }

  /// Returns a new group and its key. The group lives as long as a rank holds a pointer to it.
  std::pair<std::string, std::shared_ptr<LoopbackGroup>> create(Rank size) {
    const std::lock_guard lock(mutex_);
    auto group = std::make_shared<LoopbackGroup>(size);
    std::string key = process_ + std::to_string(next_++);
    std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    groups_[key] = group;
    return {std::move(key), std::move(group)};
  }

  /// Returns the group with this key, or null if this process has none.
  std::shared_ptr<LoopbackGroup> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(key);
    return found == groups_.end() ? nullptr : found->second.lock();
  }

 private:
  // Keys begin with a random text, so that find() returns null for a key from another process.
  std::mutex mutex_;
  const std::string process_ = format("{:016x}/", random_number());
  std::uint64_t next_ = 0;
  std::map<std::string, std::weak_ptr<LoopbackGroup>> groups_;
};

class LoopbackBackend final : public Backend {
 public:
  LoopbackBackend(std::shared_ptr<LoopbackGroup> group, Rank rank)
      : group_(std::move(group)), rank_(rank) {}

  ~LoopbackBackend() override { group_->abort(format("rank {} closed its process group", rank_)); }

  void start(const Operation& operation, Completion& completion) override {
    if (info_of(operation.collective).message) {
      return group_->messages().start(rank_, operation, completion);
    }
    completion.complete(group_->run(rank_, operation));
  }

  void abort(const std::string& reason) override { group_->abort(reason); }

  std::string describe() const override { return "threads of one process"; }

 private:
  const std::shared_ptr<LoopbackGroup> group_;
  const Rank rank_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open_loopback(const BackendSetup& setup) {
  const World& world = setup.world;
  std::shared_ptr<LoopbackGroup> group;
  std::vector<std::string> parts(world.size);
  if (world.rank == 0) {
    std::string key;
    std::tie(key, group) = LoopbackGroups::instance().create(world.size);
    std::fill(parts.begin(), parts.end(), key);
  }
  auto reply = transpose(setup, std::move(parts));
  if (!reply) return reply.error();
  if (world.rank != 0) group = LoopbackGroups::instance().find(reply->front());
  if (!group) {
    return failure(Code::unavailable,
                   "loopback backend: rank 0 is not in this process or has closed its group; "
                   "loopback ranks are threads of one process: use gloo across processes");
  }
  return std::unique_ptr<Backend>(std::make_unique<LoopbackBackend>(std::move(group), world.rank));
}

}  // namespace c10dd::collectives
