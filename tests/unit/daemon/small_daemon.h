// SPDX-License-Identifier: Apache-2.0
// The parts of a daemon that sessions need, without a listener: shards on a memory engine, turned
// by the test on its own thread, and what they share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "daemon/config/options.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/session_context.h"
#include "daemon/net/shared_budget.h"
#include "daemon/shard/shards.h"
#include "protocol/metric_catalog.h"
#include "store/engine.h"

namespace c10dd::daemon {

class SmallDaemon {
 public:
  static constexpr std::chrono::seconds kPatience{30};  // then the test fails

  /// Without an engine, opens a memory engine.
  explicit SmallDaemon(std::size_t shards = 1, const Options& with = {},
                       std::unique_ptr<store::Engine> engine = nullptr)
      : options(with),
        metrics({"0", "memory", "none"}),
        growth(std::uint64_t{1} << 40),
        budget(loop, 8 * 64 * std::uint64_t{1024 * 1024}),
        host(loop, metrics, options, [this] { ++engine_failures; }),
        shards_(std::in_place, loop, shards, host, ShardContext{metrics, options, growth}),
        context{options, metrics, budget, draining, shards_->first(), {}} {
    if (shards > 1) {
      context.shard_of = [this](const std::string& job, const std::string& run,
                                const core::JobAsker& asker) {
        return host.shard_of(job, run, asker);
      };
    }
    if (!engine) engine = *store::open_engine("memory:");
    EXPECT_TRUE(host.adopt(std::move(engine), *shards_));
  }

  ~SmallDaemon() {
    shards_->stop();
    host.close();
    shards_.reset();
  }

  /// Runs what is ready on every loop, and ends the turns.
  void turn() {
    for (std::size_t i = 1; i <= shards_->size(); ++i) {
      Shard& shard = shards_->of(i);
      shard.loop().restart();
      shard.loop().poll();
      shard.end_turn();
    }
    host.end_turn();
  }

  /// Turns until the condition holds. Returns false after kPatience.
  template <class Condition>
  bool turn_until(Condition&& there) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!there()) {
      turn();
      if (there()) break;
      if (std::chrono::steady_clock::now() > end) return false;
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(1));  // for timers and other threads
    }
    return true;
  }

  /// Turns a few times, to check that something does not happen.
  void turn_a_while() {
    for (int i = 0; i < 20; ++i) turn();
  }

  Shards& shards() { return *shards_; }
  Shard& shard() { return shards_->first(); }

  /// Returns the value of a series, as in `NAME{a="b"}`; 0 if there is none.
  double count(const metric::Info& metric, const std::string& labels) const {
    const std::string series = "\n" + std::string(metric.name) + "{" + labels + "} ";
    const std::string text = metrics.render();
    const std::size_t at = text.find(series);
    return at == std::string::npos ? 0 : std::stod(text.substr(at + series.size()));
  }
  double closed(const std::string& protocol, const std::string& reason) const {
    return count(metric::kConnectionsClosed,
                 "protocol=\"" + protocol + "\",reason=\"" + reason + '"');
  }
  double open(const std::string& protocol) const {
    return count(metric::kConnections, "protocol=\"" + protocol + '"');
  }

  Loop loop;
  Options options;
  Metrics metrics;
  core::GrowthGate growth;
  SharedBudget budget;
  EngineHost host;
  std::atomic<bool> draining = false;
  int engine_failures = 0;  ///< losses of the engine, and failed attempts to open it again

 private:
  std::optional<Shards> shards_;

 public:
  SessionContext context;
};

}  // namespace c10dd::daemon
