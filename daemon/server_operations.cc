// SPDX-License-Identifier: Apache-2.0
// Sends requests to all shards and to the engine, and collects the results on the first loop.
#include "daemon/server_operations.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>

#include "daemon/config/version.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

const auto kProcessStarted = std::chrono::steady_clock::now();

/// Adds each field of `stats` to the same field of `sum`. Every field is a std::size_t. Therefore
/// this function treats both structs as arrays, and a new field needs no new code here.
void add(core::JobStats& sum, const core::JobStats& stats) {
  using Counts = std::array<std::size_t, sizeof(core::JobStats) / sizeof(std::size_t)>;
  Counts total = std::bit_cast<Counts>(sum);
  const Counts more = std::bit_cast<Counts>(stats);
  std::transform(total.begin(), total.end(), more.begin(), total.begin(), std::plus<>());
  sum = std::bit_cast<core::JobStats>(total);
}

}  // namespace

ServerFacts ServerOperations::facts() const {
  ServerFacts facts;
  facts.version = kVersion;
  facts.engine = std::string(of_.host.engine_name());
  facts.durability = std::string(of_.host.durability());
  facts.not_ready = not_ready();
  facts.uptime = std::chrono::steady_clock::now() - kProcessStarted;
  facts.note = note();
  facts.names_jobs = of_.access == nullptr;
  return facts;
}

std::string ServerOperations::not_ready() const {
  return of_.draining ? "the daemon is shutting down" : of_.host.not_ready();
}

std::string ServerOperations::note() const {
  const std::string& damage = of_.host.damage();
  std::string text;
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  };
  if (!damage.empty()) add("degraded, jobs with damaged rows are not served: " + damage);
  add(of_.growth.disk_note());
  add(of_.endpoints.note());
  if (of_.access != nullptr) add(of_.access->note());
  return text;
}

asio::awaitable<std::vector<core::JobReport>> ServerOperations::job_reports() {
  const std::function<std::vector<core::JobReport>(Shard&)> ask = [](Shard& shard) {
    return shard.reports();
  };
  std::vector<core::JobReport> all = co_await gather(ask);
  std::ranges::sort(all, {}, &core::JobReport::number);
  co_return all;
}

asio::awaitable<std::vector<core::LoadReport>> ServerOperations::job_loads() {
  const std::function<std::vector<core::LoadReport>(Shard&)> ask = [](Shard& shard) {
    return shard.loads();
  };
  std::vector<core::LoadReport> all = co_await gather(ask);
  std::ranges::sort(all, {}, &core::LoadReport::number);
  co_return all;
}

asio::awaitable<std::vector<core::RunReport>> ServerOperations::runs_of(const std::string& job) {
  const std::function<std::vector<core::RunReport>(Shard&)> ask = [job](Shard& shard) {
    return shard.runs_of(job);
  };
  std::vector<core::RunReport> all = co_await gather(ask);
  std::ranges::sort(all, {}, [](const core::RunReport& run) { return run.job.number; });
  if (const auto launches = of_.launches.find(job)) {
    for (core::PlainRuns::Report& plain : launches->reports()) {
      // Of several runs with this name, all but the newest have ended.
      const auto named = [&](const core::RunReport& run) { return run.job.run == plain.run; };
      const auto found = std::find_if(all.rbegin(), all.rend(), named);
      if (found != all.rend()) found->plain = std::move(plain);
    }
  }
  const Result<const core::Endpoints*> endpoints = of_.host.directory().endpoints();
  for (core::RunReport& run : all) {
    if (!endpoints || run.view.world_size) continue;
    run.view.world_size = (*endpoints)->world_size(job, run.plain ? "" : run.job.run);
  }
  co_return all;
}

Result<void> ServerOperations::end_run(const std::string& job, const std::string& run) {
  if (const auto launches = of_.launches.find(job)) return launches->end(run);
  return failure(Code::not_found,
                 "run \"{}\" of job \"{}\" cannot be ended: the job has no PyTorch launches; "
                 "end its processes",
                 printable(run, limits::kNameBytes), printable(job, limits::kNameBytes));
}

std::string ServerOperations::address_for_trainers(const std::string& job) const {
  const std::string& own = of_.addresses.front();
  if (!job.empty() && job == of_.tcpstore_job) return own;
  const Result<const core::Endpoints*> all = of_.host.directory().endpoints();
  const Result<AddressParts> parts = split_address(own);
  if (!all || !parts) return {};
  const auto leased = (*all)->of_job(job);
  return leased.empty() ? std::string() : address_text(parts->host, leased.front().port);
}

asio::awaitable<Result<void>> ServerOperations::checkpoint(const std::string& path) {
  const std::function<void(std::function<void(Result<void>)>)> ask = [&](auto then) {
    of_.host.checkpoint(path, std::move(then));
  };
  co_return co_await reply_of(ask);
}

asio::awaitable<Result<void>> ServerOperations::remove_job(const std::string& job) {
  const std::function<void(std::function<void(Result<void>)>)> ask = [&](auto then) {
    of_.host.remove(job, std::move(then));
  };
  co_return co_await reply_of(ask);
}

// ---- endpoints ---------------------------------------------------------------------------------

EndpointReport ServerOperations::report_on(const core::Endpoint& endpoint) const {
  return {endpoint, of_.endpoints.host(), of_.endpoints.connections(endpoint),
          of_.endpoints.problem(endpoint)};
}

Result<std::vector<EndpointReport>> ServerOperations::endpoints_of(const std::string& job) {
  const Result<const core::Endpoints*> endpoints = of_.host.directory().endpoints();
  if (!endpoints) return endpoints.error();
  std::vector<EndpointReport> reports;
  for (const core::Endpoint& endpoint : (*endpoints)->of_job(job)) {
    reports.push_back(report_on(endpoint));
  }
  return reports;
}

asio::awaitable<Result<EndpointReport>> ServerOperations::lease_endpoint(
    const std::string& job, const LeaseEndpoint& request) {
  const std::function<void(std::function<void(Result<EndpointLease>)>)> ask = [&](auto then) {
    of_.host.directory().lease_endpoint(job, request, loop_, std::move(then));
  };
  const Result<EndpointLease> lease = co_await reply_of(ask);
  if (!lease) co_return lease.error();
  const core::Endpoint endpoint{job,         request.name, lease->port,
                                request.run, lease->ttl,   request.world_size};
  co_return report_on(endpoint);
}

asio::awaitable<Result<void>> ServerOperations::release_endpoint(const std::string& job,
                                                                 const std::string& name) {
  const std::function<void(std::function<void(Result<void>)>)> ask = [&](auto then) {
    of_.host.directory().release_endpoint({job, name}, std::move(then));
  };
  co_return co_await reply_of(ask);
}

asio::awaitable<std::string> ServerOperations::metrics_text(bool metrics_only) {
  const std::vector<core::JobReport> reports = co_await job_reports();
  std::map<std::string, core::JobStats> by_name;  // job name -> sum over all runs of the job
  for (const core::JobReport& report : reports) add(by_name[report.name], report.stats);
  for (const auto& [name, stats] : by_name) of_.metrics.job_stats(name, stats);
  of_.metrics.diagnoses(reports);
  const auto owned = std::ranges::count_if(reports, [](const core::JobReport& report) {
    return !core::is_volatile_number(report.number);
  });
  of_.metrics.jobs(reports.size(), static_cast<std::size_t>(owned));
  report_fleet();
  const Result<const core::Endpoints*> endpoints = of_.host.directory().endpoints();
  if (endpoints) of_.metrics.endpoints((*endpoints)->size());
  of_.metrics.commit_age(of_.host.commit_age());
  of_.metrics.ready(not_ready().empty());
  const core::MemoryLedger& memory = of_.growth.memory();
  of_.metrics.memory(memory.stored(), memory.held(), of_.budget.held());
  const bool sentences = !metrics_only || !of_.context.options.metrics_without_sentences;
  std::string text = co_await asio::co_spawn(
      renderer_,
      [metrics = &of_.metrics, sentences]() -> asio::awaitable<std::string> {
        co_return metrics->render(sentences);
      },
      asio::use_awaitable);
  co_return text;
}

}  // namespace c10dd::daemon
