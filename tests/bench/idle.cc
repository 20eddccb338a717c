// SPDX-License-Identifier: Apache-2.0
// Scenario idle. Connections are opened, each with one session, then each asks once, then nothing
// happens. What a connection costs is what the daemon's process has grown by; the kernel's memory
// for the socket is not in it. Every round has a daemon of its own. With --tls the connections are
// encrypted, and there is a second daemon, which asks for the certificates of clients.
#include <chrono>
#include <stdexcept>

#include "tests/bench/crowd.h"
#include "tests/bench/network.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kIdleConnections = 10'000;

/// Rounds with connections of one kind.
struct Kind {
  Series opening;
  Fact opened;
  Fact used;
};

Kind kind_of(const std::string& engine, const std::string& with) {
  return {{"opening" + with, "all connections with a session each, --engine " + engine, {}},
          {"memory of a connection with a session" + with, "B", {}},
          {"memory of it after a request" + with, "B", {}}};
}

void measure(const std::string& engine, unsigned connections, const Security* security,
             Kind& into) {
  DaemonServer daemon(engine, "fsync", security);
  Crowd(daemon.address(), 1, 1).leave();  // the job is loaded
  const std::uint64_t before = memory_of(daemon.process());
  const auto of_a_connection = [&] {
    return (static_cast<double>(memory_of(daemon.process())) - static_cast<double>(before)) /
           connections;
  };
  const Clock::time_point start = Clock::now();
  const double cpu = cpu_seconds(daemon.process());
  Crowd crowd(daemon.address(), connections, connections);
  const std::chrono::nanoseconds took = Clock::now() - start;
  const double used = cpu_seconds(daemon.process()) - cpu;
  into.opened.rounds.push_back(of_a_connection());
  crowd.ask([](unsigned) { return Check{{"bench"}}; });
  into.used.rounds.push_back(of_a_connection());
  Histogram all;
  all.add(took.count());
  Sample sample = sample_of(all, static_cast<double>(took.count()) * 1e-9, used);
  sample.per_second *= connections;
  sample.cpu /= connections;
  into.opening.rounds.push_back(sample);
}

void report(Kind kind, ScenarioResult& result) {
  result.series.push_back(std::move(kind.opening));
  result.facts.push_back(std::move(kind.opened));
  result.facts.push_back(std::move(kind.used));
}

}  // namespace

ScenarioResult run_idle(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned connections = options.connections.value_or(kIdleConnections);
  if (options.daemon) {
    throw std::runtime_error(
        "idle reads the memory of the daemon that it starts: leave out --daemon");
  }
  check_file_limit("idle", connections);
  ScenarioResult result;
  result.name = "idle";
  result.counted = "connections";
  result.parameters = {
      {"connections", connections}, {"awake", options.awake}, {"tls", options.tls}};
  std::unique_ptr<Security> by_token;
  std::unique_ptr<Security> by_certificate;
  if (options.tls) by_token = std::make_unique<Security>();
  try {
    if (options.tls) by_certificate = std::make_unique<Security>(Shown::certificate);
  } catch (const Skipped& reason) {
    result.skipped = reason.what();
  }
  Kind usual = kind_of(engine, by_token ? ", TLS" : "");
  Kind certified = kind_of(engine, ", TLS with a certificate");
  for (unsigned round = 0; round < options.rounds; ++round) {
    measure(engine, connections, by_token.get(), usual);
    if (by_certificate) measure(engine, connections, by_certificate.get(), certified);
  }
  report(std::move(usual), result);
  if (by_certificate) report(std::move(certified), result);
  return result;
}

}  // namespace c10dd::bench
