// SPDX-License-Identifier: Apache-2.0
// Runs the threads of the shards, and posts calls to all shards.
#include "daemon/shard/shards.h"

#include <boost/asio/executor_work_guard.hpp>
#include <thread>

namespace c10dd::daemon {

class Shards::Thread {
 public:
  Thread(EngineHost& host, const ShardContext& context) : shard(loop_, host, context) {}
  ~Thread() { stop(); }

  void start() {
    thread_ = std::thread([this] {
      while (!stopped_) turn(loop_, shard);
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(loop_, [this] { stopped_ = true; });
    thread_.join();
  }

  void empty() { loop_.empty(); }

 private:
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  bool stopped_ = false;
  std::thread thread_;

 public:
  Shard shard;
};

Shards::Shards(Loop& first, std::size_t count, EngineHost& host, const ShardContext& context)
    : first_loop_(first), first_(first, host, context) {
  while (others_.size() + 1 < count) others_.push_back(std::make_unique<Thread>(host, context));
}

Shards::~Shards() {
  stop();
  first_.forget();
  for (const auto& other : others_) other->shard.forget();
  first_loop_.empty();
  for (const auto& other : others_) other->empty();
}

void Shards::start() {
  for (const auto& other : others_) other->start();
}

void Shards::stop() {
  for (const auto& other : others_) other->stop();
  first_.let_go();
  for (const auto& other : others_) other->shard.let_go();
}

Shard& Shards::of(JobNumber number) {
  const std::size_t at = (number - 1) % size();
  return at == 0 ? first_ : others_[at - 1]->shard;
}

void Shards::each(const std::function<void(Shard&)>& f) {
  asio::post(first_.loop(), [this, f] { f(first_); });
  for (const auto& other : others_) {
    asio::post(other->shard.loop(), [&shard = other->shard, f] { f(shard); });
  }
}

void Shards::turn(Loop& loop, Shard& shard) {
  loop.run_ready();
  shard.end_turn();
}

}  // namespace c10dd::daemon
