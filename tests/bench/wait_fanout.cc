// SPDX-License-Identifier: Apache-2.0
// Scenario wait-fanout. Every waiter is a session that waits for a key that is not there; then it
// is set. Measured from the set to the answer of each waiter, as one thread receives them, and to
// the last. Every time with a key of its own.
#include <algorithm>
#include <chrono>

#include "tests/bench/crowd.h"
#include "tests/bench/native_frames.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kConnectionsMax = 1000;

struct Round {
  Histogram each;
  Histogram last;
  std::chrono::nanoseconds total{0};  // of the last ones
};

/// All wait, the key is set, all are answered.
void fan_out(Crowd& waiters, Crowd& setter, unsigned members, const Set& set, Round& round) {
  waiters.send(waiters.encode(0, members, [&](unsigned) {
    return Wait{{set.key.str()}, std::chrono::seconds(kPatience)};
  }));
  waiters.settle();
  const std::vector<Bytes> out = setter.encode(0, 1, [&](unsigned) { return set; });
  const Clock::time_point start = Clock::now();
  setter.send(out);
  std::chrono::nanoseconds passed{0};
  waiters.receive_as_they_come([&](std::size_t came) {
    passed = Clock::now() - start;
    for (std::size_t i = 0; i < came; ++i) round.each.add(passed.count());
  });
  round.last.add(passed.count());
  round.total += passed;
  setter.receive_all();
  setter.ask([&](unsigned) { return Remove{set.key}; });
}

}  // namespace

ScenarioResult run_wait_fanout(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned connections =
      std::min(options.connections.value_or(kConnectionsMax), options.waiters);
  std::unique_ptr<DaemonServer> daemon;
  if (!options.daemon) daemon = std::make_unique<DaemonServer>(engine, "fsync");
  const Address address = options.daemon ? *options.daemon : daemon->address();

  ScenarioResult result;
  result.name = "wait-fanout";
  result.counted = "answers";
  result.round_seconds = options.seconds;
  result.parameters = {{"waiters", options.waiters},
                       {"connections", connections},
                       {"value_bytes", options.value_bytes},
                       {"awake", options.awake}};
  const std::string how = options.daemon ? "was running" : "--engine " + engine;
  result.series = {{"each waiter", "set to its answer, " + how, {}},
                   {"the last one", "set to the last answer, " + how, {}}};
  Crowd waiters(address, connections, options.waiters);
  Crowd setter(address, 1, 1);
  const std::string name = "fanout/" + std::to_string(random_number()) + "/";
  unsigned keys = 0;
  for (unsigned n = 0; n < options.rounds; ++n) {
    Round warm_up;
    Round round;
    const auto once = [&](Round& of) {
      Set set;
      set.key = name + std::to_string(keys++);
      set.value = Bytes(options.value_bytes, 'v');
      fan_out(waiters, setter, options.waiters, set, of);
    };
    once(warm_up);
    const auto until =
        Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
    do {
      once(round);
    } while (Clock::now() < until);
    const double seconds = static_cast<double>(round.total.count()) * 1e-9;
    result.series[0].rounds.push_back(sample_of(round.each, seconds));
    result.series[1].rounds.push_back(sample_of(round.last, seconds));
  }
  waiters.leave();
  setter.leave();
  return result;
}

}  // namespace c10dd::bench
