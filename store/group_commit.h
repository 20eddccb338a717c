// SPDX-License-Identifier: Apache-2.0
// Group commit around any engine: its own thread commits, and batches that arrive meanwhile form
// the next commit. So the number of syncs follows the disk, not the number of requests.
// After an unknown outcome every later batch is unknown, too, and is not passed to the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/commit_batch.h"
#include "store/engine.h"

namespace c10dd::store {

/// Owns an engine and the thread that calls it.
class GroupCommit {
 public:
  using OnDone = std::function<void(CommitResult)>;

  /// Takes the engine over and starts the commit thread.
  explicit GroupCommit(std::unique_ptr<Engine> engine);

  /// Waits until all that was submitted and a checkpoint that is being written are done, then
  /// closes the engine. No on_done is called afterwards.
  ~GroupCommit();

  /// Queues a batch. on_done is called once, on the commit thread, in order of submission.
  /// Thread-safe.
  void submit(CommitBatch batch, OnDone on_done);

  /// Queues f(engine), for claims and loads, behind the batches submitted before. Returns at once;
  /// f itself reports when it is done. f runs on the commit thread. Thread-safe.
  void post(std::function<void(Engine&)> f);

  /// Queues f(engine) as post() does, and again each time that f returns true, behind the batches
  /// submitted before. f runs and is destroyed on the commit thread, before the engine.
  /// Thread-safe.
  void post_steps(std::function<bool(Engine&)> f);

  /// Runs Engine::checkpoint(path) on a new thread, while commits go on. If another checkpoint is
  /// being written, calls on_done immediately, with unavailable. Otherwise calls on_done on the new
  /// thread; from then on the next checkpoint may start. Thread-safe.
  void checkpoint(std::string path, std::function<void(Result<void>)> on_done);

  /// Returns the age of the oldest submitted batch or function that is not done; 0 if there is
  /// none. Thread-safe.
  Duration oldest() const;

  /// Returns the engine, for its const functions.
  const Engine& engine() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::store
