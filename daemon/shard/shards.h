// SPDX-License-Identifier: Apache-2.0
// All shards with their loops and threads. The first shard runs on the caller's loop, which also
// accepts connections and serves HTTP.
//
// Threads: every call is made on the thread of the first loop, except those marked "Thread-safe."
#pragma once

#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/shard/loop.h"
#include "daemon/shard/shard.h"

namespace c10dd::daemon {

class Shards {
 public:
  Shards(Loop& first, std::size_t count, EngineHost& host, const ShardContext& context);
  ~Shards();

  /// Starts the threads of all shards except the first.
  void start();

  /// Ends and joins the threads of the shards, then makes all shards drop the engine. Blocks.
  void stop();

  std::size_t size() const { return 1 + others_.size(); }  ///< Thread-safe.
  Shard& first() { return first_; }                        ///< Thread-safe.

  /// Returns the shard that serves the job with this number.
  /// Thread-safe.
  Shard& of(JobNumber number);

  /// Posts a call of f(shard) to the loop of each shard.
  /// Thread-safe.
  void each(const std::function<void(Shard&)>& f);

  /// Calls f for each shard on the shard's loop. After all calls, calls `then` on the first loop
  /// with all results, in no fixed order. Thread-safe.
  template <class R>
  void ask(std::function<R(Shard&)> f, std::function<void(std::vector<R>)> then) {
    const auto replies = std::make_shared<std::vector<R>>();
    each([this, f, replies, then](Shard& shard) {
      asio::post(first_.loop(), [this, replies, then, reply = f(shard)]() mutable {
        replies->push_back(std::move(reply));
        if (replies->size() == size()) then(std::move(*replies));
      });
    });
  }

  /// Runs one turn of a loop: blocks until a handler is ready, runs the ready handlers up to a
  /// limit, then ends the shard's turn. Called on the loop's thread.
  static void turn(Loop& loop, Shard& shard);

 private:
  class Thread;

  Loop& first_loop_;
  Shard first_;
  std::vector<std::unique_ptr<Thread>> others_;
};

}  // namespace c10dd::daemon
