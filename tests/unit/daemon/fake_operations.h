// SPDX-License-Identifier: Apache-2.0
// A daemon as HTTP sees it: returns what the test has set, and records the calls.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <string>
#include <vector>

#include "daemon/http/operations.h"

namespace c10dd::daemon {

struct FakeOperations final : Operations {
  ServerFacts facts() const override { return known; }

  boost::asio::awaitable<std::string> metrics_text(bool) override {
    asked.push_back("metrics");
    co_return metrics;
  }
  boost::asio::awaitable<std::vector<core::JobReport>> job_reports() override {
    asked.push_back("jobs");
    co_return jobs;
  }
  boost::asio::awaitable<std::vector<core::LoadReport>> job_loads() override { co_return loads; }
  boost::asio::awaitable<std::vector<core::RunReport>> runs_of(const std::string& job) override {
    asked.push_back("runs of " + job);
    co_return runs;
  }
  Result<void> end_run(const std::string& job, const std::string& run) override {
    asked.push_back("end " + run + " of " + job);
    return done;
  }
  std::string address_for_trainers(const std::string&) const override { return trainers; }
  boost::asio::awaitable<Result<void>> checkpoint(const std::string& path) override {
    asked.push_back("checkpoint " + path);
    co_return done;
  }
  boost::asio::awaitable<Result<void>> remove_job(const std::string& job) override {
    asked.push_back("remove " + job);
    co_return done;
  }
  Result<std::vector<EndpointReport>> endpoints_of(const std::string& job) override {
    asked.push_back("endpoints of " + job);
    if (!listed) return listed.error();
    return endpoints;
  }
  boost::asio::awaitable<Result<EndpointReport>> lease_endpoint(
      const std::string& job, const LeaseEndpoint& request) override {
    asked.push_back("lease " + request.name + " of " + job);
    if (!done) co_return done.error();
    co_return endpoints.at(0);
  }
  boost::asio::awaitable<Result<void>> release_endpoint(const std::string& job,
                                                        const std::string& name) override {
    asked.push_back("release " + name + " of " + job);
    co_return done;
  }

  boost::asio::awaitable<DaemonsPage> daemons() override { co_return daemons_page; }
  boost::asio::awaitable<JobsPage> owners() override { co_return owners_page; }
  bool is_stored(const std::string&) const override { return stored; }
  boost::asio::awaitable<Result<JobPlaces>> places_of(const std::string&) override {
    co_return places;
  }
  /// Gives the next of `replies`; if there is none, waits for ever.
  boost::asio::awaitable<HttpReply> forward(const HttpRequest& request, const Peer& to,
                                            bool local) override {
    asked.push_back("forward " + request.target + " to " + to.addresses.at(0) +
                    (local ? " locally" : ""));
    if (replies.empty()) {
      boost::asio::steady_timer never(co_await boost::asio::this_coro::executor);
      never.expires_at(boost::asio::steady_timer::time_point::max());
      co_await never.async_wait(boost::asio::use_awaitable);
    }
    HttpReply reply = replies.front();
    replies.pop_front();
    co_return reply;
  }
  bool is_fleet_secret(std::string_view given) const override { return given == "secret"; }
  boost::asio::awaitable<Result<MoveReport>> move_job(const std::string& job,
                                                      const std::string& to) override {
    asked.push_back("move " + job + " to " + to);
    if (!done) co_return done.error();
    co_return MoveReport{job, to, {"r1"}, {}};
  }

  ServerFacts known = [] {
    ServerFacts facts;
    facts.version = "0.1.0";
    facts.engine = "memory";
    facts.durability = "none";
    return facts;
  }();
  std::string trainers;
  std::string metrics = "c 1\n";
  std::vector<core::JobReport> jobs;
  std::vector<core::LoadReport> loads;
  std::vector<core::RunReport> runs;
  std::vector<EndpointReport> endpoints;
  DaemonsPage daemons_page;
  JobsPage owners_page;
  Result<JobPlaces> places = JobPlaces{};
  bool stored = false;
  std::deque<HttpReply> replies;  ///< of other daemons
  Result<void> listed;            ///< of endpoints_of()
  Result<void> done;              ///< of what changes something
  std::vector<std::string> asked;
};

}  // namespace c10dd::daemon
