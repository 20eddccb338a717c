// SPDX-License-Identifier: Apache-2.0
// Scenario restart. All sessions are members of one group; again and again the daemon is killed
// (SIGKILL) and started on its state. Measured from the kill until a new session is greeted, and
// until every session is back on a connection and has been given the place that it had: the same
// generation, the same rank. Then nobody may be lost.
#include <chrono>
#include <stdexcept>

#include "tests/bench/group_crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = Crowd::Clock;

constexpr unsigned kRestartMembers = 10'000;

}  // namespace

ScenarioResult run_restart(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned members = options.members.value_or(kRestartMembers);
  const unsigned connections = std::min(options.connections.value_or(members), members);
  if (options.daemon || engine.starts_with("memory:")) {
    throw std::runtime_error(
        "restart kills the daemon that it starts, and the members must survive: leave out "
        "--daemon, and choose an engine with a directory");
  }
  check_file_limit("restart", connections);
  ScenarioResult result;
  result.name = "restart";
  result.counted = "times";
  result.parameters = {{"members", members},
                       {"connections", connections},
                       {"awake", options.awake},
                       {"tls", options.tls}};
  result.series = {{"serving", "kill to the first hello answered, --engine " + engine, {}},
                   {"resumed", "kill to the last session back in its place", {}}};
  const std::unique_ptr<Security> security = options.tls ? std::make_unique<Security>() : nullptr;
  DaemonServer daemon(engine, "fsync", security.get());
  GroupCrowd group(daemon.address(), connections, members, members);
  group.join();
  for (unsigned round = 0; round < options.rounds; ++round) {
    group.must_be_whole();
    const Clock::time_point start = Clock::now();
    daemon.kill();
    daemon.start();
    Crowd first(daemon.address(), 1, 1);
    result.series[0].rounds.push_back(sample_of_one(Clock::now() - start));
    group.crowd().reconnect(daemon.address());
    group.join_again();
    result.series[1].rounds.push_back(sample_of_one(Clock::now() - start));
    first.leave();
    group.must_be_whole();
  }
  return result;
}

}  // namespace c10dd::bench
