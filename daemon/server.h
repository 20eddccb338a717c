// SPDX-License-Identifier: Apache-2.0
// Starts, runs and stops the daemon. Owns the first loop with the listener and HTTP, all shards,
// and the handling of signals.
#pragma once

#include <atomic>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/core/host/drain.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/end_by.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/launch_runs.h"
#include "daemon/net/listener.h"
#include "daemon/net/session_context.h"
#include "daemon/net/shared_budget.h"
#include "daemon/server_operations.h"
#include "daemon/shard/disk_watch.h"
#include "daemon/shard/shards.h"

namespace c10dd::daemon {

/// Owns all parts of the daemon. Its functions run on the main thread, which also runs the first
/// loop.
class Server {
 public:
  explicit Server(Options options);
  ~Server();

  /// Serves until SIGTERM or SIGINT arrives, then drains. Returns an exit code, see exit_codes.h.
  int run();

 private:
  Result<void> start();
  std::shared_ptr<LaunchRuns> make_launches();
  Protocols protocols(const ListenerSettings& settings);
  void drain();
  void close();
  void stop_when_finished(std::chrono::steady_clock::time_point deadline);

  Options options_;
  Loop loop_;
  asio::signal_set signals_{loop_};
  asio::steady_timer drain_timer_{loop_};
  std::unique_ptr<Metrics> metrics_;
  core::GrowthGate growth_;
  std::unique_ptr<SharedBudget> budget_;
  std::unique_ptr<EngineHost> host_;
  std::unique_ptr<DiskWatch> disk_;
  std::shared_ptr<LaunchRuns> launches_;
  std::unique_ptr<ServerOperations> operations_;
  std::optional<SessionContext> context_;
  std::unique_ptr<Shards> shards_;
  std::unique_ptr<Admission> admission_;
  std::vector<std::unique_ptr<Listener>> listeners_;  ///< the first has the address of the options
  EndBy end_by_;
  std::atomic<bool> draining_ = false;  ///< read on any thread
  core::Drain drain_;
  bool stopped_ = false;
};

}  // namespace c10dd::daemon
