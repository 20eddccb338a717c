// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: the reference against which every other backend is tested.
// The last rank to arrive computes for all, in rank order, so results are the same on every run.
// Notices size and operation mismatches, and names the ranks that are missing.
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

/// What one rank brought to the current collective.
struct Arrival {
  Collective collective = Collective::barrier;
  std::uint64_t sequence = 0;
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  Tensor output;
  Tensor input;

  std::string signature() const {
    const Tensor& shape = collective == Collective::all_gather ? input : output;
    return words(published({.sequence = sequence,
                            .collective = collective,
                            .dtype = shape.dtype,
                            .reduce = reduce,
                            .root = root,
                            .count = shape.count}));
  }
};

void compute(const std::vector<Arrival>& ranks) {
  const Arrival& first = ranks.front();
  const std::size_t bytes = first.output.bytes();
  switch (first.collective) {
    case Collective::all_reduce: {
      const ReduceFunction combine = reduce_function(first.output.dtype, first.reduce);
      void* const result = first.output.data;
      for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        combine(result, result, ranks[rank].output.data, first.output.count);
      }
      if (first.reduce == ReduceOp::avg) divide(first.output, static_cast<Rank>(ranks.size()));
      for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        std::memcpy(ranks[rank].output.data, result, bytes);
      }
      return;
    }
    case Collective::broadcast:
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (rank == first.root) continue;
        std::memcpy(ranks[rank].output.data, ranks[first.root].output.data, bytes);
      }
      return;
    case Collective::all_gather:
      for (const Arrival& to : ranks) {
        std::byte* out = static_cast<std::byte*>(to.output.data);
        for (const Arrival& from : ranks) {
          std::memmove(out, from.input.data, from.input.bytes());
          out += from.input.bytes();
        }
      }
      return;
    case Collective::barrier:
      return;
  }
}

/// Where the ranks of one group meet. All waiting happens here.
class Room {
 public:
  explicit Room(Rank size) : arrivals_(size) {}

  Result<void> meet(Rank rank, Arrival arrival, const CallContext& context) {
    std::unique_lock lock(mutex_);
    if (dead_) return *dead_;
    const std::uint64_t round = round_;
    arrivals_[rank] = std::move(arrival);
    if (++arrived_ == arrivals_.size()) {
      finish_round();
    } else if (!changed_.wait_until(lock, context.deadline,
                                    [&] { return dead_ || round_ != round; })) {
      die(time_out(rank, context));
    }
    if (round_ != round) return {};
    arrivals_[rank].reset();  // lets go of the tensors
    return *dead_;
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!dead_) die(failure(Code::aborted, "loopback group aborted: " + reason));
  }

 private:
  // A round that cannot be computed kills the group and leaves round_ as it is.
  void finish_round() {
    std::vector<Rank> different;
    const std::string expected = arrivals_.front()->signature();
    for (Rank rank = 1; rank < arrivals_.size(); ++rank) {
      if (arrivals_[rank]->signature() != expected) different.push_back(rank);
    }
    if (!different.empty()) {
      die(failure(Code::size_mismatch, named(different) + " issued " +
                                           arrivals_[different.front()]->signature() +
                                           ", rank 0 issued " + expected));
      return;
    }
    std::vector<Arrival> ranks;
    for (auto& arrival : arrivals_) {
      ranks.push_back(std::move(*arrival));
      arrival.reset();
    }
    compute(ranks);
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  Failure time_out(Rank rank, const CallContext& context) const {
    std::vector<Rank> missing;
    for (Rank other = 0; other < arrivals_.size(); ++other) {
      if (!arrivals_[other]) missing.push_back(other);
    }
    Failure late =
        failure(Code::timed_out,
                arrivals_[rank]->signature() + " timed out after " + human(context.timeout) + ": " +
                    std::to_string(missing.size()) + " of " + std::to_string(arrivals_.size()) +
                    " ranks missing " + folded(missing));
    for (const Rank other : missing) {
      late.missing.push_back({other, MissingRank::Cause::not_arrived, "", 0, Duration{0}});
    }
    return late;
  }

  void die(Failure reason) {
    dead_ = std::move(reason);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Arrival>> arrivals_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
  std::optional<Failure> dead_;
};

/// Rooms of this process, by the key that rank 0 hands out.
class Rooms {
 public:
  static Rooms& instance() {
    static Rooms rooms;
    return rooms;
  }

  std::pair<std::string, std::shared_ptr<Room>> create(Rank size) {
    const std::lock_guard lock(mutex_);
    auto room = std::make_shared<Room>(size);
    std::string key = process_ + std::to_string(next_++);
    std::erase_if(rooms_, [](const auto& entry) { return entry.second.expired(); });
    rooms_[key] = room;
    return {std::move(key), std::move(room)};
  }

  std::shared_ptr<Room> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = rooms_.find(key);
    return found == rooms_.end() ? nullptr : found->second.lock();
  }

 private:
  // Random, so that a key of another process is not mistaken for one of ours.
  Rooms() {
    std::random_device random;
    process_ = std::to_string(random()) + "-" + std::to_string(random()) + "/";
  }

  std::mutex mutex_;
  std::string process_;
  std::uint64_t next_ = 0;
  std::map<std::string, std::weak_ptr<Room>> rooms_;
};

class LoopbackBackend final : public Backend {
 public:
  LoopbackBackend(std::shared_ptr<Room> room, Rank rank) : room_(std::move(room)), rank_(rank) {}

  ~LoopbackBackend() override {
    room_->abort("rank " + std::to_string(rank_) + " closed its process group");
  }

  Result<void> all_reduce(const Tensor& tensor, ReduceOp op, const CallContext& context) override {
    return room_->meet(rank_, {Collective::all_reduce, context.sequence, op, 0, tensor, {}},
                       context);
  }

  Result<void> broadcast(const Tensor& tensor, Rank root, const CallContext& context) override {
    return room_->meet(
        rank_, {Collective::broadcast, context.sequence, ReduceOp::sum, root, tensor, {}}, context);
  }

  Result<void> all_gather(const Tensor& output, const Tensor& input,
                          const CallContext& context) override {
    return room_->meet(rank_,
                       {Collective::all_gather, context.sequence, ReduceOp::sum, 0, output, input},
                       context);
  }

  Result<void> barrier(const CallContext& context) override {
    return room_->meet(rank_, {Collective::barrier, context.sequence, ReduceOp::sum, 0, {}, {}},
                       context);
  }

  void abort(const std::string& reason) override { room_->abort(reason); }

 private:
  const std::shared_ptr<Room> room_;
  const Rank rank_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open_loopback(const BackendSetup& setup) {
  const World& world = setup.world;
  std::shared_ptr<Room> room;
  std::vector<std::string> parts(world.size);
  if (world.rank == 0) {
    std::string key;
    std::tie(key, room) = Rooms::instance().create(world.size);
    std::fill(parts.begin(), parts.end(), key);
  }
  auto reply = transpose(setup, std::move(parts));
  if (!reply) return reply.error();
  if (world.rank != 0) room = Rooms::instance().find(reply->front());
  if (!room) {
    return failure(Code::unavailable,
                   "loopback backend: rank 0 is not in this process or has left; loopback ranks "
                   "are threads of one process, use gloo across processes");
  }
  return std::unique_ptr<Backend>(std::make_unique<LoopbackBackend>(std::move(room), world.rank));
}

}  // namespace c10dd::collectives
