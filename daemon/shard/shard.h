// SPDX-License-Identifier: Apache-2.0
// Serves the jobs of one event loop. core::JobHost makes the decisions. The shard sets the loop's
// timer, passes work to the engine's thread, and writes metrics and the log.
//
// Threads: every call is made on the loop's thread. A connection calls only the shard of its own
// loop.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/host/job_host.h"
#include "daemon/metrics/metrics.h"
#include "daemon/metrics/request_tally.h"
#include "daemon/shard/engine_host.h"
#include "daemon/shard/event_log.h"
#include "daemon/shard/loop.h"

namespace c10dd::daemon {

/// The objects that all shards share. They outlive the shards.
/// Thread-safe.
struct ShardContext {
  Metrics& metrics;
  const Options& options;
  core::GrowthGate& growth;
};

class Shard final : private core::JobHost::Shell {
 public:
  Shard(Loop& loop, EngineHost& engine_host, const ShardContext& context);

  Loop& loop() { return loop_; }  ///< Thread-safe.
  /// This function is thread-safe, but the functions of the returned object are not.
  core::JobHost& host() { return host_; }

  // ---- for the connections of this loop: see core::JobHost

  bool spent(const core::JobRef& job) const { return host_.spent(job); }

  /// Returns the counters of the requests on this loop.
  RequestTally& tally() { return tally_; }

  /// Returns the number of the current turn. Connections use the number to read only once per turn.
  std::uint64_t turn() const { return turn_; }
  /// Calls `wake` after this turn. `had_some` tells whether the caller's connection has processed
  /// frames in this turn. Connections that have processed no frames are woken first.
  void rest(std::function<void()> wake, bool had_some);

  // ---- for the daemon

  void engine_opened(const OpenEngine& engine);
  /// Drops all jobs and the reference to the engine.
  void engine_lost(const std::string& why);

  /// Ends a turn, after its handlers have run: see core::JobHost::end_turn().
  void end_turn();

  void drain() { host_.drain(); }
  std::size_t unfinished() { return host_.jobs().unfinished(); }
  std::vector<core::JobReport> reports();
  std::vector<core::LoadReport> loads() { return host_.jobs().loads(); }
  std::vector<core::RunReport> runs_of(const std::string& job) { return host_.jobs().runs_of(job); }

  /// Drops the reference to the engine. Called after the loop's thread has stopped. The loop must
  /// still exist, because the engine's threads post to it until the engine is closed.
  void let_go() { engine_.commit.reset(); }

  /// Drops all references to connections.
  /// Called when the engine is closed.
  void forget();

 private:
  void commit(store::CommitBatch batch) override;
  void load(const core::JobRef& slot, std::shared_ptr<store::JobLoad> load) override;
  void hand_over(const core::JobRef& slot, std::uint64_t process) override;
  void lose_engine(std::uint64_t generation, const std::string& why, bool rolled_back) override;
  void report_damage(const std::string& what) override;
  void performed(const core::JobSlot& slot, const core::Effects& effects, const core::Origin* from,
                 std::uint64_t sequence) override;
  void released(const core::OutgoingReply& reply) override;
  void report(const core::JobSlot* slot, const core::HostEvent& event) override;

  void wake_resting();
  void arm_timer();

  Loop& loop_;
  EngineHost& engine_host_;
  Metrics& metrics_;
  RequestTally tally_;
  EventLog log_;
  OpenEngine engine_;  ///< `commit` is null while no engine is open
  core::JobHost host_;
  boost::asio::steady_timer timer_;
  bool timer_set_ = false;
  std::uint64_t turn_ = 1;
  std::int64_t turn_ended_ns_ = 0;
  std::vector<std::function<void()>> starved_;  ///< woken first; they processed no frames
  std::vector<std::function<void()>> served_;   ///< woken next; they processed frames
};

}  // namespace c10dd::daemon
