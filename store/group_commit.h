// SPDX-License-Identifier: Apache-2.0
// Group commit around any engine: one batch in flight on its own thread, the rest gathers behind
// it, so the number of syncs follows the disk and not the number of requests.
// After an unknown outcome every later batch is answered unknown and the engine is left alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/commit_batch.h"
#include "store/engine.h"

namespace c10dd::store {

class GroupCommit {
 public:
  using OnDone = std::function<void(CommitResult)>;

  /// Owns the engine from now on.
  explicit GroupCommit(std::unique_ptr<Engine> engine);

  /// Finishes what was submitted, and a checkpoint that is being written, then closes the engine.
  /// No on_done is called afterwards.
  ~GroupCommit();

  /// Queues a batch; on_done is called once, on the commit thread, in order of submission.
  /// Thread-safe.
  void submit(CommitBatch batch, OnDone on_done);

  /// Runs f(engine) on the commit thread, after the batches submitted before, for claims and loads.
  /// Returns at once; f says itself when it is done. Thread-safe.
  void post(std::function<void(Engine&)> f);

  /// Likewise, again and again as long as f(engine) says true, each time after the batches
  /// submitted before. f is destroyed on the commit thread, before the engine.
  void post_steps(std::function<bool(Engine&)> f);

  /// Engine::checkpoint(path) on a thread of its own, while commits go on. on_done is called once,
  /// on that thread, or at once when a checkpoint is being written: one at a time. From its call on
  /// the next may be asked for. Thread-safe.
  void checkpoint(std::string path, std::function<void(Result<void>)> on_done);

  /// How long the oldest of what was submitted and is not done has been waiting; 0: there is none.
  /// Thread-safe.
  Duration oldest() const;

  const Engine& engine() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::store
