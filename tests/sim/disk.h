// SPDX-License-Identifier: Apache-2.0
// What survives, and how it gets there. Disk is the product's memory engine, whose state outlives
// processes. DiskQueue is one process's commit thread: a batch is applied somewhere between its
// submission and its end; when the process dies before, any prefix of its batches may survive.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "store/group_commit.h"
#include "tests/sim/process.h"
#include "tests/sim/records.h"
#include "tests/sim/swarm.h"

namespace c10dd::sim {

class Disk {
 public:
  Disk(World& world, const Swarm& swarm, Records& records);

  store::Engine& engine() { return *engine_; }

  /// Makes the next commit of any queue fail, or take seconds.
  void fail_next() { fail_next_ = true; }
  void stall_next() { stall_next_ = true; }
  void heal() { fail_next_ = stall_next_ = false; }

  /// Loses the newest rows of every job, though they were durable; keeps the directory of jobs.
  void roll_back();

  /// Applies the first `count` batches; the outcome of the others is unknown.
  std::vector<store::Outcome> apply(std::span<const store::JobBatch> batches, std::size_t count);

 private:
  friend class DiskQueue;

  bool force(const store::JobBatch& batch);

  World& world_;
  const Swarm& swarm_;
  Records& records_;
  std::unique_ptr<store::Engine> engine_;
  bool fail_next_ = false;
  bool stall_next_ = false;
};

class DiskQueue : public std::enable_shared_from_this<DiskQueue> {
 public:
  using OnDone = std::function<void(store::CommitResult)>;
  using Function = std::function<void(store::Engine*)>;  ///< null: the engine is lost

  DiskQueue(World& world, Disk& disk) : world_(world), disk_(disk) {}

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
  };

  void start();
  void execute(const std::shared_ptr<Item>& item, Duration rest);
  void end();

  World& world_;
  Disk& disk_;
  std::deque<std::shared_ptr<Item>> items_;
  bool busy_ = false;
  bool lost_ = false;
  bool dead_ = false;
  bool executed_ = true;  // the item at the front
};

}  // namespace c10dd::sim
