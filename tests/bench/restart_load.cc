// SPDX-License-Identifier: Apache-2.0
// Scenario restart-load. The daemon is filled with keys; then, again and again, it is killed and
// started on the same state. Measured from the start of the process to the first answer to a get,
// in a job that is loaded for it. Each round has two restarts: one after a tenth of the keys has
// been set again, so that the engine finds its log full, and one right after the other, with a log
// that is as empty as the engine left it. The memory of a key is what the process has grown by.
// With --members so many clients of the SDK are members of a group in the job: none of them may be
// fenced or lost, however long the load takes.
#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "tests/bench/crowd.h"
#include "tests/bench/native_frames.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/sdk_members.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kKeysOfABatch = 1000;

void set_keys(Crowd& client, const Workload& workload, unsigned from, unsigned to) {
  for (unsigned key = from; key < to;) {
    MultiSet set;
    for (; key < to && set.keys.size() < kKeysOfABatch; ++key) {
      set.keys.push_back(workload.key(key));
      set.values.push_back(workload.value());
    }
    client.ask([&](unsigned) { return set; });
  }
}

/// Kills the daemon; the time that it takes to start again and to answer a get.
Sample restart(DaemonServer& daemon, const Bytes& key) {
  daemon.kill();
  const Clock::time_point start = Clock::now();
  daemon.start();
  Crowd client(daemon.address(), 1, 1);
  client.ask([&](unsigned) { return Get{key, Duration{0}}; });
  const std::chrono::nanoseconds took = Clock::now() - start;
  Histogram one;
  one.add(took.count());
  return sample_of(one, static_cast<double>(took.count()) * 1e-9);
}

}  // namespace

ScenarioResult run_restart_load(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  if (options.daemon || engine.starts_with("memory:")) {
    throw std::runtime_error(
        "restart-load kills the daemon that it starts, and its keys must survive: "
        "leave out --daemon, and choose an engine with a directory");
  }
  const Workload workload{Operation::set, options.key_bytes, options.value_bytes};
  ScenarioResult result;
  result.name = "restart-load";
  result.counted = "restarts";
  result.parameters = {{"keys", options.keys},
                       {"key_bytes", options.key_bytes},
                       {"value_bytes", options.value_bytes},
                       {"members", options.members.value_or(0)},
                       {"read_rate_mib", static_cast<std::uint64_t>(options.read_rate)},
                       {"awake", options.awake}};
  const std::string how = "start to first get, --engine " + engine;
  result.series = {{"log full", how, {}}, {"log empty", how, {}}};

  DaemonServer daemon(engine, "fsync");
  double empty = 0;
  const auto of_a_key = [&](const char* name = "VmRSS") {
    return (static_cast<double>(memory_of(daemon.process(), name)) - empty) / options.keys;
  };
  {
    Crowd client(daemon.address(), 1, 1);
    empty = static_cast<double>(memory_of(daemon.process()));
    set_keys(client, workload, 0, options.keys);
  }
  Fact filled{"memory of a key, when it was set", "B", {of_a_key()}};
  Fact loaded{"memory of a key, when it was loaded", "B", {}};
  Fact peak{"memory of a key, peak while loading", "B", {}};
  const Bytes last = workload.key(options.keys - 1);
  std::optional<SdkMembers> members;
  if (options.members) members.emplace(daemon.address(), new_session().run, *options.members);
  const auto restart_once = [&] {
    const Sample took = restart(daemon, last);
    if (members) members->must_be_whole();
    return took;
  };
  for (unsigned round = 0; round < options.rounds; ++round) {
    {
      Crowd client(daemon.address(), 1, 1);
      set_keys(client, workload, 0, std::max(options.keys / 10, 1U));
    }
    result.series[0].rounds.push_back(restart_once());
    result.series[1].rounds.push_back(restart_once());
    loaded.rounds.push_back(of_a_key());
    peak.rounds.push_back(of_a_key("VmHWM"));
  }
  result.facts = {filled, loaded, peak};
  return result;
}

}  // namespace c10dd::bench
