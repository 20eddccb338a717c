// SPDX-License-Identifier: Apache-2.0
// Runs the targets of a load in turns, so that what else the machine does hits all of them.
#include "tests/bench/load.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

constexpr double kWarmUpShare = 0.2;  // of a round, in addition to it

/// The servers of one scenario, started as needed, and how to speak to them.
struct Contestants {
  std::unique_ptr<EchoServer> echo;
  std::unique_ptr<DaemonServer> daemon;
  std::unique_ptr<RedisServer> redis;
  std::vector<Target> targets;
};

Contestants start(const LoadScenario& scenario, const Options& options, const Workload& workload) {
  Contestants all;
  const auto add = [&](const char* name, const std::string& how, const Address& at, pid_t process,
                       auto converse) {
    const auto on = [workload, converse](unsigned connection) {
      return converse(workload, connection);
    };
    all.targets.push_back({name, how, at.host, at.port, process, on});
  };
  const auto add_own = [&](const char* name, const std::string& how, const auto& server,
                           auto converse) {
    add(name, how, {"127.0.0.1", server.port()}, server.process(), converse);
  };
  all.echo = std::make_unique<EchoServer>(native_bytes(workload));
  add_own("echo", "bare epoll, the bytes of c10dd", *all.echo, echo_conversation);
  if (scenario.echo_only) return all;
  if (options.daemon) {
    add("c10dd", "was running", *options.daemon, 0, native_conversation);
  } else {
    const std::string engine = options.engine.empty() ? scenario.engine : options.engine;
    all.daemon = std::make_unique<DaemonServer>(engine, scenario.durability);
    add_own("c10dd", "--engine " + engine + " --durability " + scenario.durability, *all.daemon,
            native_conversation);
  }
  if (options.redis) {
    add("redis", "was running", *options.redis, 0, redis_conversation);
  } else if (options.spawn_redis) {
    all.redis = std::make_unique<RedisServer>(scenario.appendfsync);
    add_own("redis", "--appendonly yes --appendfsync " + scenario.appendfsync, *all.redis,
            redis_conversation);
  }
  return all;
}

}  // namespace

ScenarioResult run_load_scenario(const LoadScenario& scenario, const Options& options) {
  const Workload workload{scenario.operation, options.key_bytes, options.value_bytes};
  const NativeBytes bytes = native_bytes(workload);
  ScenarioResult result;
  result.name = scenario.name;
  result.counted = "requests";
  result.bars = "c10dd";
  result.round_seconds = options.seconds;
  result.parameters = {{"connections", options.connections},
                       {"depth", options.depth},
                       {"key_bytes", options.key_bytes},
                       {"value_bytes", options.value_bytes},
                       {"request_bytes", bytes.request},
                       {"reply_bytes", bytes.reply.size()},
                       {"awake", options.awake}};
  const Contestants contestants = start(scenario, options, workload);
  for (const Target& target : contestants.targets) {
    result.series.push_back({target.name, target.how, {}});
  }
  const LoadOptions load{options.connections, options.depth, options.seconds * kWarmUpShare,
                         options.seconds};
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < contestants.targets.size(); ++i) {
      const Measurement measured = run_load(contestants.targets[i], load);
      result.series[i].rounds.push_back(
          sample_of(measured.latency, measured.seconds, measured.cpu_seconds));
    }
  }
  return result;
}

}  // namespace c10dd::bench
