// SPDX-License-Identifier: Apache-2.0
// Implements the queries and commands of the HTTP routes by asking the parts of the daemon. Runs on
// the first loop. What concerns several daemons is in server_fleet.cc.
#pragma once

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "daemon/access.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/forwarder.h"
#include "daemon/http/operations.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/endpoint_listeners.h"
#include "daemon/net/launch_runs.h"
#include "daemon/net/shared_budget.h"
#include "daemon/shard/owner_lookup.h"
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
    const SessionContext& context;
    const Access* access;                      ///< null without --tls
    const std::vector<std::string> addresses;  ///< of this daemon, for clients and other daemons
    const std::string engine;                  ///< its URL
    const std::string tcpstore_job;  ///< of the clients of TCPStore on the first of `addresses`; or
                                     ///< empty
  };
  ServerOperations(Loop& loop, const Daemon& of)
      : loop_(loop),
        of_(of),
        forwarder_(of.metrics, of.context, of.addresses.front()),
        lookup_(loop, of.engine, of.context.options.redis_ca) {}

  ServerFacts facts() const override;

  /// Renders the text on a separate thread. Renders one text at a time: a second request waits
  /// until the first is finished.
  asio::awaitable<std::string> metrics_text(bool metrics_only) override;

  asio::awaitable<std::vector<core::JobReport>> job_reports() override;
  asio::awaitable<std::vector<core::LoadReport>> job_loads() override;
  asio::awaitable<std::vector<core::RunReport>> runs_of(const std::string& job) override;
  Result<void> end_run(const std::string& job, const std::string& run) override;
  std::string address_for_trainers(const std::string& job) const override;
  asio::awaitable<Result<void>> checkpoint(const std::string& path) override;
  asio::awaitable<Result<void>> remove_job(const std::string& job) override;
  Result<std::vector<EndpointReport>> endpoints_of(const std::string& job) override;
  asio::awaitable<Result<EndpointReport>> lease_endpoint(const std::string& job,
                                                         const LeaseEndpoint& request) override;
  asio::awaitable<Result<void>> release_endpoint(const std::string& job,
                                                 const std::string& name) override;

  // server_fleet.cc
  asio::awaitable<DaemonsPage> daemons() override;
  asio::awaitable<JobsPage> owners() override;
  asio::awaitable<Result<JobPlaces>> places_of(const std::string& job) override;
  bool is_stored(const std::string& job) const override;
  asio::awaitable<HttpReply> forward(const HttpRequest& request, const Peer& to,
                                     bool trusted) override;
  bool is_fleet_secret(std::string_view secret) const override;
  asio::awaitable<Result<MoveReport>> move_job(const std::string& job,
                                               const std::string& to) override;

  /// Ends the threads. Called after the loops have stopped.
  void close() {
    renderer_.join();
    lookup_.close();
  }

 private:
  std::string not_ready() const;
  std::string note() const;
  template <class T>
  asio::awaitable<std::vector<T>> gather(const std::function<std::vector<T>(Shard&)>& ask);
  template <class T>
  asio::awaitable<Result<T>> reply_of(std::function<void(std::function<void(Result<T>)>)> ask);
  asio::awaitable<Result<OwnerLookup::Found>> look_up(const std::vector<JobNumber>& jobs);
  asio::awaitable<Result<std::vector<core::RunOwner>>> all_owners();
  asio::awaitable<std::vector<JobNumber>> served_runs(const std::string& job);
  asio::awaitable<Result<JobPlaces>> look_for(const std::string& job);
  void report_fleet();
  EndpointReport report_on(const core::Endpoint& endpoint) const;

  Loop& loop_;
  const Daemon of_;
  Forwarder forwarder_;
  OwnerLookup lookup_;
  asio::thread_pool renderer_{1};
};

/// Calls `ask` on each shard, and returns all elements of the lists that it returns. `ask` must be
/// a variable of the caller: g++ 12 destroys a temporary in the operand of co_await twice.
template <class T>
asio::awaitable<std::vector<T>> ServerOperations::gather(
    const std::function<std::vector<T>(Shard&)>& ask) {
  const auto all = std::make_shared<std::vector<T>>();
  const auto done =
      std::make_shared<asio::steady_timer>(loop_, asio::steady_timer::time_point::max());
  of_.shards.ask<std::vector<T>>(ask, [all, done](std::vector<std::vector<T>> lists) {
    for (auto& some : lists) {
      all->insert(all->end(), std::move_iterator(some.begin()), std::move_iterator(some.end()));
    }
    done->expires_at(asio::steady_timer::time_point::min());
  });
  co_await done->async_wait(asio::as_tuple(asio::use_awaitable));
  co_return std::move(*all);
}

/// Calls `ask` with a callback, waits until the callback is called, and returns the argument of the
/// callback. The callback must be called on this loop.
template <class T>
asio::awaitable<Result<T>> ServerOperations::reply_of(
    std::function<void(std::function<void(Result<T>)>)> ask) {
  const auto result = std::make_shared<Result<T>>();
  const auto done =
      std::make_shared<asio::steady_timer>(loop_, asio::steady_timer::time_point::max());
  ask([result, done](Result<T> reply) {
    *result = std::move(reply);
    done->expires_at(asio::steady_timer::time_point::min());
  });
  co_await done->async_wait(asio::as_tuple(asio::use_awaitable));
  co_return *result;
}

}  // namespace c10dd::daemon
