// SPDX-License-Identifier: Apache-2.0
// Scenario join. So many members connect, say hello and join one group, which forms when the last
// has asked: measured from the first connect to the last answer. Then all meet at barriers bound
// to the generation. Then they do nothing but beat: what the daemon's process has grown by since
// before is the memory of a member. Every round has a daemon of its own.
#include <chrono>
#include <stdexcept>

#include "tests/bench/group_crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = Crowd::Clock;

constexpr unsigned kJoinMembers = 16'384;
constexpr unsigned kBarriers = 5;                  // of a kind in a round
constexpr std::chrono::milliseconds kIdle{1'500};  // three heartbeats of each

/// A value of some barriers.
struct TimedBarriers {
  Histogram took;
  Clock::duration total{0};

  void add(Clock::duration time) {
    took.add(time.count());
    total += time;
  }
  Sample sample() const { return sample_of(took, std::chrono::duration<double>(total).count()); }
};

struct Found {
  Series& joined;
  Series& whole;
  Series& last;
  Series& late;
  Fact& memory;
};

void measure(const std::string& engine, unsigned connections, unsigned members, Found& found) {
  DaemonServer daemon(engine, "fsync");
  Crowd(daemon.address(), 1, 1).leave();  // the job is loaded
  const std::uint64_t before = memory_of(daemon.process());
  const Clock::time_point start = Clock::now();
  GroupCrowd group(daemon.address(), connections, members, members);
  group.join();
  found.joined.rounds.push_back(sample_of_one(Clock::now() - start));
  group.crowd().rest(kIdle);
  found.memory.rounds.push_back(
      (static_cast<double>(memory_of(daemon.process())) - static_cast<double>(before)) / members);
  TimedBarriers whole;
  TimedBarriers last;
  TimedBarriers late;
  for (unsigned i = 0; i < kBarriers; ++i) {
    const GroupCrowd::Met met = group.meet(false);
    whole.add(met.whole);
    last.add(met.last);
    late.add(group.meet(true).last);
  }
  found.whole.rounds.push_back(whole.sample());
  found.last.rounds.push_back(last.sample());
  found.late.rounds.push_back(late.sample());
  group.must_be_whole();
}

}  // namespace

ScenarioResult run_join(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned members = options.members.value_or(kJoinMembers);
  const unsigned connections = std::min(options.connections.value_or(members), members);
  if (options.daemon) {
    throw std::runtime_error(
        "join reads the memory of the daemon that it starts: leave out --daemon");
  }
  check_file_limit("join", connections);
  ScenarioResult result;
  result.name = "join";
  result.counted = "times";
  result.parameters = {
      {"members", members}, {"connections", connections}, {"awake", options.awake}};
  result.series = {
      {"join", "first connect to the last Joined, --engine " + engine, {}},
      {"barrier, whole", "all at once: first arrival sent to last release", {}},
      {"barrier, last", "all at once: last arrival sent to last release", {}},
      {"barrier, late", "the others' arrivals are durable: last arrival sent to last release", {}}};
  result.facts = {{"memory of an idle member", "B", {}}};
  Found found{result.series[0], result.series[1], result.series[2], result.series[3],
              result.facts[0]};
  for (unsigned round = 0; round < options.rounds; ++round) {
    measure(engine, connections, members, found);
  }
  return result;
}

}  // namespace c10dd::bench
