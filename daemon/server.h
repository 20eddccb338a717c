// SPDX-License-Identifier: Apache-2.0
// Starts, runs and stops the daemon. Owns the first loop with the listener and HTTP, all shards,
// and the handling of signals.
#pragma once

#include <atomic>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/access.h"
#include "daemon/config/options.h"
#include "daemon/core/host/drain.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/end_by.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/endpoint_listeners.h"
#include "daemon/net/launch_runs.h"
#include "daemon/net/listener.h"
#include "daemon/net/relay.h"
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
  Result<void> listen();
  Result<void> start();
  void serve();
  std::vector<std::string> advertised_addresses() const;
  void warn_of_loopback() const;
  void reload_at_hang_up();
  std::shared_ptr<LaunchRuns> make_launches(const std::string& job);
  std::shared_ptr<core::RunClaim> make_claim(const std::string& job, const std::string& run);
  std::shared_ptr<TcpStoreListener> tcpstore_listener(
      const ListenerSettings& settings, std::function<std::shared_ptr<const void>()> count);
  Protocols protocols(const ListenerSettings& settings,
                      std::function<std::shared_ptr<const void>()> count);
  void drain();
  void close();
  void stop_when_finished(std::chrono::steady_clock::time_point deadline);

  Options options_;
  Loop loop_;
  asio::signal_set signals_{loop_};
  asio::steady_timer drain_timer_{loop_};
  asio::signal_set hang_up_{loop_};
  std::unique_ptr<Metrics> metrics_;
  core::GrowthGate growth_;
  std::unique_ptr<SharedBudget> budget_;
  std::unique_ptr<EngineHost> host_;
  std::unique_ptr<DiskWatch> disk_;
  Launches launches_{[this](const std::string& job) { return make_launches(job); }};
  std::unique_ptr<ServerOperations> operations_;
  std::optional<SessionContext> context_;
  std::unique_ptr<Access> access_;  ///< null without --tls
  std::unique_ptr<Shards> shards_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Listener> listener_;          ///< on the address of the options
  std::unique_ptr<Listener> metrics_listener_;  ///< of --listen-metrics; null without it
  std::optional<SessionContext> metrics_context_;
  std::unique_ptr<EndpointListeners> endpoints_;
  std::unique_ptr<Relay> relay_;  ///< null if the engine is not shared
  EndBy end_by_;
  std::atomic<bool> draining_ = false;  ///< read on any thread
  core::Drain drain_;
  bool stopped_ = false;
};

}  // namespace c10dd::daemon
