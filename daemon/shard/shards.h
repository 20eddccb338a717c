// SPDX-License-Identifier: Apache-2.0
// All shards with their loops and threads. The first runs on the caller's loop, which also accepts
// connections and answers HTTP.
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

  /// Starts the threads of all but the first.
  void start();

  /// Ends and joins them; all shards let go of the engine.
  void stop();

  std::size_t size() const { return 1 + others_.size(); }
  Shard& first() { return first_; }

  /// A job's number says where it lives.
  Shard& of(JobNumber number);

  /// Calls f for every shard, on its loop, without waiting.
  void each(const std::function<void(Shard&)>& f);

  /// Calls f for every shard, on its loop, and `then` with all answers on the first loop.
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

  /// One turn of a loop: waits for something ready, takes what else is, ends the shard's turn.
  static void turn(Loop& loop, Shard& shard);

 private:
  class Thread;

  Loop& first_loop_;
  Shard first_;
  std::vector<std::unique_ptr<Thread>> others_;
};

}  // namespace c10dd::daemon
