// SPDX-License-Identifier: Apache-2.0
// Group commit for any engine: a commit thread commits batches, and batches that arrive during a
// commit form the next commit. So the number of syncs depends on the speed of the disk, not on the
// number of requests.
// After an unknown outcome, all later outcomes are unknown, too, and no batch reaches the engine.
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

  /// Takes ownership of the engine and starts the commit thread.
  explicit GroupCommit(std::unique_ptr<Engine> engine);

  /// Waits until all submitted batches and functions, and a running checkpoint, are done. Then
  /// closes the engine. No on_done is called afterwards.
  ~GroupCommit();

  /// Queues a batch. on_done is called once, on the commit thread, in order of submission.
  /// Thread-safe.
  void submit(CommitBatch batch, OnDone on_done);

  /// Queues a call of f(engine), for example to claim or load a job, behind the batches that are
  /// already submitted. Returns without waiting for the call. If the caller must know that f is
  /// done, f has to report it. f runs on the commit thread. Thread-safe.
  void post(std::function<void(Engine&)> f);

  /// Queues a call of f(engine), as post() does. Whenever f returns true, queues f again, behind
  /// the batches that were submitted in the meantime. When f returns false, drops f. f runs on the
  /// commit thread, and is destroyed on that thread before the engine is destroyed. Thread-safe.
  void post_steps(std::function<bool(Engine&)> f);

  /// Runs Engine::checkpoint(path) on a new thread, while commits go on. If another checkpoint is
  /// being written, calls on_done immediately, with unavailable. Otherwise calls on_done on the new
  /// thread; the next checkpoint may start as soon as on_done is called. Thread-safe.
  void checkpoint(std::string path, std::function<void(Result<void>)> on_done);

  /// Returns the age of the oldest submitted batch or function that is not done; 0 if there is
  /// none. Thread-safe.
  Duration oldest() const;

  const Engine& engine() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::store
