// SPDX-License-Identifier: Apache-2.0
// The daemon as a whole: the first loop with listener and HTTP, the shards, signals, and the order
// of start and end. What may be called from the shards' threads says so.
#pragma once

#include <atomic>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/end_by.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/listener.h"
#include "daemon/net/shared_budget.h"
#include "daemon/shard/disk_watch.h"
#include "daemon/shard/growth_gate.h"
#include "daemon/shard/shards.h"

namespace c10dd::daemon {

class Server {
 public:
  explicit Server(Options options);
  ~Server();

  /// Serves until SIGTERM or SIGINT, then drains. The exit code, as listed in deploy/README.md.
  int run();

  Shards& shards() { return *shards_; }
  EngineHost& host() { return *host_; }
  Metrics& metrics() { return *metrics_; }  ///< from any thread
  const Options& options() const { return options_; }
  SharedBudget& budget() { return *budget_; }  ///< of the connections, from any thread

  /// From any thread.
  bool draining() const { return draining_; }

  /// One line for /readyz: empty when requests are served, else the reason why not.
  std::string not_ready() const;

  /// All jobs that are loaded, of all shards.
  asio::awaitable<std::vector<JobReport>> job_reports();

  /// Writes a copy of the state.
  asio::awaitable<Result<void>> checkpoint(const std::string& path);

  /// Removes a job, see EngineHost::remove.
  asio::awaitable<Result<void>> remove_job(const std::string& job);

  /// What an operator should know though requests are served; empty when there is nothing.
  std::string note() const;

  /// The text of /metrics, rendered on a thread of its own from a fresh snapshot. At most one
  /// rendering at a time; a second request waits for the first.
  asio::awaitable<std::string> metrics_text();

 private:
  Result<void> start();  ///< all but the listener
  void drain();
  void close();
  asio::awaitable<Result<void>> answer_of(
      std::function<void(std::function<void(Result<void>)>)> ask);
  void stop_when_finished(std::chrono::steady_clock::time_point deadline);

  Options options_;
  Loop loop_;
  asio::signal_set signals_{loop_};
  asio::steady_timer drain_timer_{loop_};
  std::unique_ptr<Metrics> metrics_;
  GrowthGate growth_;
  std::unique_ptr<SharedBudget> budget_;
  std::unique_ptr<EngineHost> host_;
  std::unique_ptr<DiskWatch> disk_;
  std::unique_ptr<Shards> shards_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<asio::thread_pool> renderer_;
  EndBy end_by_;
  std::atomic<bool> draining_ = false;
  bool stopped_ = false;
};

}  // namespace c10dd::daemon
