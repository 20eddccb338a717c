// SPDX-License-Identifier: Apache-2.0
// Implements the queries and commands of the HTTP routes by asking the parts of the daemon. Runs on
// the first loop.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <vector>

#include "daemon/core/host/growth_gate.h"
#include "daemon/http/operations.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/endpoint_listeners.h"
#include "daemon/net/launch_runs.h"
#include "daemon/net/shared_budget.h"
#include "daemon/shard/shards.h"

namespace c10dd::daemon {

class ServerOperations final : public Operations {
 public:
  struct Daemon {
    Metrics& metrics;
    Shards& shards;
    EngineHost& host;
    core::GrowthGate& growth;
    SharedBudget& budget;
    Launches& launches;
    const EndpointListeners& endpoints;
    const std::atomic<bool>& draining;
  };
  ServerOperations(Loop& loop, const Daemon& of) : loop_(loop), of_(of) {}

  ServerFacts facts() const override;

  /// Renders the text on a separate thread. Renders one text at a time: a second request waits
  /// until the first is finished.
  asio::awaitable<std::string> metrics_text() override;

  asio::awaitable<std::vector<core::JobReport>> job_reports() override;
  asio::awaitable<std::vector<core::RunReport>> runs_of(const std::string& job) override;
  Result<void> end_run(const std::string& job, const std::string& run) override;
  asio::awaitable<Result<void>> checkpoint(const std::string& path) override;
  asio::awaitable<Result<void>> remove_job(const std::string& job) override;
  Result<std::vector<EndpointReport>> endpoints_of(const std::string& job) override;
  asio::awaitable<Result<EndpointReport>> lease_endpoint(const std::string& job,
                                                         const LeaseEndpoint& request) override;
  asio::awaitable<Result<void>> release_endpoint(const std::string& job,
                                                 const std::string& name) override;

  /// Ends the rendering thread. Called after the loops have stopped.
  void close() { renderer_.join(); }

 private:
  std::string not_ready() const;
  std::string note() const;
  template <class T>
  asio::awaitable<std::vector<T>> gather(const std::function<std::vector<T>(Shard&)>& ask);
  template <class T>
  asio::awaitable<Result<T>> reply_of(std::function<void(std::function<void(Result<T>)>)> ask);
  EndpointReport report_on(const core::Endpoint& endpoint) const;

  Loop& loop_;
  const Daemon of_;
  asio::thread_pool renderer_{1};
};

}  // namespace c10dd::daemon
