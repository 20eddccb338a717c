// SPDX-License-Identifier: Apache-2.0
// The loopback backend: the ranks are threads of one process. The last rank to arrive computes for
// all ranks, in rank order, so that results are equal on every run. A collective fails if the ranks
// issue different collectives. After a time-out, the failure names the missing ranks.
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "collectives/backend.h"
#include "collectives/reduce.h"
#include "collectives/who_waits.h"
#include "collectives/wording.h"

namespace c10dd::collectives {
namespace {

/// Returns a text for errors that lists the arguments that must be equal on all ranks.
std::string signature(const Operation& operation) {
  const Tensor& common = operation.common();
  return text_of(published({.sequence = operation.sequence,
                            .collective = operation.collective,
                            .dtype = common.dtype,
                            .reduce = operation.reduce,
                            .root = operation.root,
                            .count = common.count}));
}

using Ranks = std::vector<Operation>;  // the same operation, as each rank has issued it

void copy(const Tensor& to, const Tensor& from) {
  // Uses memmove, because the elements may already be in their place.
  if (from.count > 0) std::memmove(to.data, from.data, from.bytes());
}

/// Returns the reduction of part(rank) over all ranks. `keep` gets its memory.
template <class Part>
Tensor reduced(const Ranks& ranks, Part part, std::vector<std::byte>& keep) {
  Tensor result = part(ranks.front());
  const ReduceOp op = ranks.front().reduce;
  keep.resize(2 * result.bytes());
  result.data = keep.data();
  Tensor prepared = result;
  prepared.data = keep.data() + result.bytes();
  const ReduceFunction combine = reduce_function(result.dtype, op);
  for (const Operation& rank : ranks) {
    const bool first = &rank == &ranks.front();
    const Tensor& to = first ? result : prepared;
    copy(to, part(rank));
    prepare(to, rank.reduce);
    if (!first) combine(result.data, result.data, prepared.data, result.count);
  }
  finish(result, op, static_cast<Rank>(ranks.size()));
  return result;
}

void gather(const Ranks& ranks, const Tensor& output) {
  const std::size_t count = ranks.front().input.count;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    copy(output.slice(i * count, count), ranks[i].input);
  }
}

void reduce_scatter(const Ranks& ranks) {
  std::vector<std::byte> keep;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t count = ranks[i].output.count;
    const auto part = [&](const Operation& rank) { return rank.input.slice(i * count, count); };
    copy(ranks[i].output, reduced(ranks, part, keep));
  }
}

void all_to_all(const Ranks& ranks) {
  const std::size_t count = ranks.front().input.count / ranks.size();
  for (std::size_t to = 0; to < ranks.size(); ++to) {
    for (std::size_t from = 0; from < ranks.size(); ++from) {
      copy(ranks[to].output.slice(from * count, count), ranks[from].input.slice(to * count, count));
    }
  }
}

/// Runs the operation on the tensors of all ranks.
void compute(const Ranks& ranks) {
  const Operation& first = ranks.front();
  const Operation& root = ranks[first.root];
  const auto output = [](const Operation& rank) { return rank.output; };
  std::vector<std::byte> keep;
  switch (first.collective) {
    case Collective::all_reduce: {
      const Tensor result = reduced(ranks, output, keep);
      for (const Operation& rank : ranks) copy(rank.output, result);
      return;
    }
    case Collective::reduce:
      return copy(root.output, reduced(ranks, output, keep));
    case Collective::broadcast:
      for (const Operation& rank : ranks) copy(rank.output, root.output);
      return;
    case Collective::all_gather:
      for (const Operation& rank : ranks) gather(ranks, rank.output);
      return;
    case Collective::reduce_scatter:
      return reduce_scatter(ranks);
    case Collective::gather:
      return gather(ranks, root.output);
    case Collective::scatter:
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const std::size_t count = ranks[i].output.count;
        copy(ranks[i].output, root.input.slice(i * count, count));
      }
      return;
    case Collective::all_to_all:
      return all_to_all(ranks);
    case Collective::barrier:
      return;
  }
}

/// One process group: keeps the arguments of each rank for the current collective until all ranks
/// have arrived. Thread-safe.
class LoopbackGroup {
 public:
  explicit LoopbackGroup(Rank size) : arrivals_(size) {}

  /// Blocks until all ranks have called run() for this collective, at most until the deadline.
  Result<void> run(Rank rank, const Operation& operation) {
    std::unique_lock lock(mutex_);
    if (dead_) return *dead_;
    const std::uint64_t round = round_;
    arrivals_[rank] = operation;
    if (++arrived_ == arrivals_.size()) {
      finish_round();
    } else if (!changed_.wait_until(lock, operation.deadline,
                                    [&] { return dead_ || round_ != round; })) {
      die(time_out(operation));
    }
    if (round_ != round) return {};
    arrivals_[rank].reset();  // the group must not keep the tensors after run() returns
    return *dead_;
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!dead_) die(failure(Code::aborted, "loopback group aborted: " + reason));
  }

 private:
  // Computes the collective, increases round_ and wakes the ranks. If the ranks' arguments differ,
  // computes nothing and makes the group fail. Called under the lock, after all ranks have arrived.
  void finish_round() {
    std::vector<Rank> different;
    const std::string expected = signature(*arrivals_.front());
    for (Rank rank = 1; rank < arrivals_.size(); ++rank) {
      if (signature(*arrivals_[rank]) != expected) different.push_back(rank);
    }
    if (!different.empty()) {
      die(failure(Code::size_mismatch, "{} issued {}, but rank 0 issued {}", named(different),
                  signature(*arrivals_[different.front()]), expected));
      return;
    }
    std::vector<Operation> ranks;
    for (auto& arrival : arrivals_) {
      ranks.push_back(std::move(*arrival));
      arrival.reset();
    }
    compute(ranks);
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  Failure time_out(const Operation& operation) const {
    std::vector<Rank> missing;
    for (Rank other = 0; other < arrivals_.size(); ++other) {
      if (!arrivals_[other]) missing.push_back(other);
    }
    Failure late = failure(Code::timed_out, "{} timed out after {}: {} of {} ranks missing: {}",
                           signature(operation), human(*operation.timeout), missing.size(),
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
  std::condition_variable changed_;                 ///< round_ or dead_ has changed
  std::vector<std::optional<Operation>> arrivals_;  ///< indexed by rank; nullopt: not arrived yet
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;      ///< number of collectives that were computed
  std::optional<Failure> dead_;  ///< if set, no collective can run any more; never reset
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
  LoopbackGroups() {
    std::random_device random;
    process_ = format("{}-{}/", random(), random());
  }

  std::mutex mutex_;
  std::string process_;
  std::uint64_t next_ = 0;
  std::map<std::string, std::weak_ptr<LoopbackGroup>> groups_;
};

class LoopbackBackend final : public Backend {
 public:
  LoopbackBackend(std::shared_ptr<LoopbackGroup> group, Rank rank)
      : group_(std::move(group)), rank_(rank) {}

  ~LoopbackBackend() override { group_->abort(format("rank {} closed its process group", rank_)); }

  Result<void> run(const Operation& operation) override { return group_->run(rank_, operation); }

  void abort(const std::string& reason) override { group_->abort(reason); }

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
