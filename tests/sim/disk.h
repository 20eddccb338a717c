// SPDX-License-Identifier: Apache-2.0
// What survives, and how it gets there. Disk is the product's memory engine, whose state outlives
// processes. DiskQueue is one process's commit thread: a batch is applied somewhere between its
// submission and its end; when the process dies before, any prefix of its batches may survive.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "store/fleet.h"
#include "store/group_commit.h"
#include "store/memory_engine.h"
#include "tests/sim/process.h"
#include "tests/sim/records.h"
#include "tests/sim/swarm.h"

namespace c10dd::sim {

class Disk {
 public:
  Disk(World& world, const Swarm& swarm, Records& records);

  store::Engine& engine() { return *engine_; }
  /// Returns the engine of a daemon: in a fleet, one of its own on the shared state.
  std::shared_ptr<store::Engine> engine_of(std::uint64_t process);
  /// Returns a link to the rows of the fleet.
  std::unique_ptr<store::Fleet> fleet() { return store::open_fleet_on(memory_); }

  /// Makes the server of a shared engine hang for a while: it does nothing, for nobody.
  void hang_for(Duration how_long) {
    hangs_until_ = std::max(hangs_until_, world_.now() + how_long);
  }
  /// Returns whether a command, or a reply, of a link to the fleet is lost now.
  /// Losses come in bursts.
  bool loses() {
    if (swarm_.untroubled) return false;
    const bool again = world_.now() < lost_at_ + std::chrono::seconds(3);
    const bool lost = !healed_ && world_.random.chance(again ? 25 : 1);
    if (lost) lost_at_ = world_.now();
    return lost;
  }
  Duration hangs_for() const { return std::max(hangs_until_ - world_.now(), Duration(0)); }

  /// Makes the next commit of any queue fail, or take seconds.
  void fail_next() { fail_next_ = true; }
  void stall_next() { stall_next_ = true; }
  void heal() {
    fail_next_ = stall_next_ = false;
    healed_ = true;  // a server that hangs goes on when its time is over
  }

  /// Returns a copy of the shared state, which a replica may have.
  store::SharedMemory copy() const { return *memory_; }
  /// Makes an older copy the shared state; only its jobs, if `jobs_only` is set.
  void put_back(const store::SharedMemory& copy, bool jobs_only);
  /// Makes an older copy the shared state, as a replica that is promoted. Links and engines that
  /// are open stay with the old server, which goes on taking changes.
  void promote(const store::SharedMemory& copy);
  const store::SharedMemory& memory() const { return *memory_; }

  /// Forgets the changes of the directory, as the commit of an older daemon does.
  void forget_changes() { memory_->jobs[0].newest.clear(); }

  /// Loses the newest rows of every job, though they were durable; keeps the directory of jobs.
  void roll_back();

  /// Applies the first `count` batches; the outcome of the others is unknown.
  std::vector<store::Outcome> apply(store::Engine& engine, std::span<const store::JobBatch> batches,
                                    std::size_t count);

 private:
  friend class DiskQueue;

  bool force(const store::JobBatch& batch);

  World& world_;
  const Swarm& swarm_;
  Records& records_;
  std::shared_ptr<store::SharedMemory> memory_ = std::make_shared<store::SharedMemory>();
  std::shared_ptr<store::Engine> engine_;
  /// The jobs before put_back(): readers may still refer to them.
  std::vector<std::map<JobNumber, store::SharedMemory::JobRows>> replaced_;
  TimePoint hangs_until_;
  TimePoint lost_at_{std::chrono::hours(-1)};
  bool healed_ = false;
  bool fail_next_ = false;
  bool stall_next_ = false;
};

class DiskQueue : public std::enable_shared_from_this<DiskQueue> {
 public:
  using OnDone = std::function<void(store::CommitResult)>;
  using Function = std::function<void(store::Engine*)>;  ///< null: the engine is lost

  DiskQueue(World& world, Disk& disk, std::shared_ptr<store::Engine> engine)
      : world_(world), disk_(disk), engine_(std::move(engine)) {}

  /// Returns the age of the oldest item that has not ended; 0 if there is none.
  Duration age() const;

  /// As GroupCommit's functions. on_done and f run at any time, and post to their process
  /// themselves.
  void submit(store::CommitBatch batch, OnDone on_done);
  void post(Function f);

  /// Ends the queue, because the process died: calls nothing back; batches in flight may be
  /// applied.
  void die();

 private:
  struct Item {
    store::CommitBatch batch;
    OnDone on_done;
    Function function;
    TimePoint submitted;
  };

  void start();
  void execute(const std::shared_ptr<Item>& item, Duration rest);
  void end();

  World& world_;
  Disk& disk_;
  const std::shared_ptr<store::Engine> engine_;
  std::deque<std::shared_ptr<Item>> items_;
  bool busy_ = false;
  bool lost_ = false;
  bool dead_ = false;
  bool executed_ = true;  // the item at the front
};

}  // namespace c10dd::sim
