// SPDX-License-Identifier: Apache-2.0
// Scenario idle. Connections are opened, each with one session, then each asks once, then nothing
// happens. What a connection costs is what the daemon's process has grown by; the kernel's memory
// for the socket is not in it. Every round has a daemon of its own.
#include <chrono>
#include <stdexcept>

#include "tests/bench/crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kIdleConnections = 10'000;
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
  result.parameters = {{"connections", connections}, {"awake", options.awake}};
  result.series = {{"opening", "all connections with a session each, --engine " + engine, {}}};
  Fact opened{"memory of a connection with a session", "B", {}};
  Fact used{"memory of it after a request", "B", {}};
  for (unsigned round = 0; round < options.rounds; ++round) {
    DaemonServer daemon(engine, "fsync");
    Crowd(daemon.address(), 1, 1).leave();  // the job is loaded
    const std::uint64_t before = memory_of(daemon.process());
    const auto of_a_connection = [&] {
      return (static_cast<double>(memory_of(daemon.process())) - static_cast<double>(before)) /
             connections;
    };
    const Clock::time_point start = Clock::now();
    Crowd crowd(daemon.address(), connections, connections);
    const std::chrono::nanoseconds took = Clock::now() - start;
    opened.rounds.push_back(of_a_connection());
    crowd.ask([](unsigned) { return Check{{"bench"}}; });
    used.rounds.push_back(of_a_connection());
    Histogram all;
    all.add(took.count());
    Sample sample = sample_of(all, static_cast<double>(took.count()) * 1e-9);
    sample.per_second *= connections;
    result.series[0].rounds.push_back(sample);
  }
  result.facts = {opened, used};
  return result;
}

}  // namespace c10dd::bench
