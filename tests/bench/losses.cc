// SPDX-License-Identifier: Apache-2.0
// Scenarios death and silent. All members of a group but one are a crowd that follows the group;
// the other is a process of its own. It is killed (death), or its network link is set down
// (silent): measured until the others have been told that the generation is broken, each and the
// last. Then all form the next generation with another such process, and so on.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <stdexcept>

#include "protocol/random.h"
#include "tests/bench/group_crowd.h"
#include "tests/bench/network.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = Crowd::Clock;

constexpr unsigned kLossMembers = 1'000;
constexpr std::chrono::milliseconds kRestMax{500};

/// Between the heartbeats it may happen at any time.
Clock::duration any_time() {
  static std::mt19937_64 random(random_number());
  return std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(0, kRestMax.count())(random));
}

struct Loss {
  const char* name;
  unsigned times;  ///< in a round, if it is not said
  const char* what;
  const char* listen;
  Address (*seen_by_the_one)(Address daemon);
  std::function<void()> prepare;  ///< in the process that is lost
  std::function<void(Child&)> begin;
  std::function<void()> end;
};

void measure(const Loss& loss, GroupCrowd& group, const Address& daemon, unsigned size,
             unsigned times, ScenarioResult& result) {
  Histogram each;
  Histogram last;
  std::chrono::duration<double> total{0};
  for (unsigned i = 0; i < times; ++i) {
    Child one([&] {
      live_as_member(loss.seen_by_the_one(daemon), join_of(group.group(), size), loss.prepare);
    });
    group.join();
    group.watch();
    group.crowd().rest(any_time());
    const Clock::time_point start = Clock::now();
    loss.begin(one);
    const Histogram told = group.await_loss(start);
    each.add(told);
    last.add(static_cast<std::int64_t>(told.max()));
    total += std::chrono::duration<double>(told.max() * 1e-9);
    loss.end();
  }
  result.series[0].rounds.push_back(sample_of(each, total.count()));
  result.series[1].rounds.push_back(sample_of(last, total.count()));
}

ScenarioResult run(const Loss& loss, const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned size = options.members.value_or(kLossMembers);
  const unsigned connections = std::min(options.connections.value_or(size - 1), size - 1);
  const unsigned times = options.times.value_or(loss.times);
  check_file_limit(loss.name, connections);
  ScenarioResult result;
  result.name = loss.name;
  result.counted = "told";
  result.parameters = {
      {"members", size}, {"connections", connections}, {"times", times}, {"awake", options.awake}};
  const std::string how = std::string(loss.what) + " to the news of it, --engine " + engine;
  result.series = {{"each member", how, {}}, {"the last one", how, {}}};
  DaemonServer daemon(engine, "fsync", nullptr, loss.listen);
  GroupCrowd group(daemon.address(), connections, size - 1, size);
  for (unsigned round = 0; round < options.rounds; ++round) {
    measure(loss, group, daemon.address(), size, times, result);
  }
  return result;
}

void must_be_own_daemon(const Options& options, const std::string& name) {
  if (options.daemon) throw std::runtime_error(name + " starts its own daemon: leave out --daemon");
}

}  // namespace

ScenarioResult run_death(const Options& options) {
  must_be_own_daemon(options, "death");
  return run(
      {"death", 30, "SIGKILL of a member", "127.0.0.1:0", [](Address daemon) { return daemon; },
       [] { ::close_range(STDERR_FILENO + 1, ~0U, 0); }, [](Child& one) { one.kill(); }, [] {}},
      options);
}

ScenarioResult run_silent(const Options& options) {
  must_be_own_daemon(options, "silent");
  try {
    TwoNetworks networks;
    return run({"silent", 5, "link of a member set down",
                "0.0.0.0:0",  // of the near network, which only the far one reaches
                [](Address daemon) {
                  return Address{TwoNetworks::kNearAddress, daemon.port};
                },
                [&] {
                  networks.enter_far();
                  ::close_range(STDERR_FILENO + 1, ~0U, 0);
                },
                [&](Child&) { networks.set_link(false); }, [&] { networks.set_link(true); }},
               options);
  } catch (const Skipped& reason) {
    ScenarioResult result;
    result.name = "silent";
    result.skipped = reason.what();
    return result;
  }
}

}  // namespace c10dd::bench
