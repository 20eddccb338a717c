// SPDX-License-Identifier: Apache-2.0
// The end of some seeds with a fleet: the server loses changes that were durable, as in a failover
// to an older replica, or all of them. All daemons must stop, also one that slept meanwhile and
// sees nothing itself, until an operator accepts the loss; then all must serve again.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLossPatience = seconds(15);
constexpr Duration kStaysStopped = seconds(5);

}  // namespace

/// Waits until it holds for all daemons.
void Simulation::expect_all(const char* what, const std::function<bool(const Daemon&)>& holds) {
  const auto holds_for_all = [&] {
    return std::ranges::all_of(fleet_, [&](const auto& daemon) { return holds(*daemon); });
  };
  if (run_until(kLossPatience, holds_for_all)) return;
  for (const auto& daemon : fleet_) {
    if (holds(*daemon)) continue;
    world_.violated("loss", "daemon " + std::to_string(daemon->number()) + what);
  }
}

void Simulation::lose_state() {
  end_faults();
  run_until(disk_.hangs_for() + seconds(5), [] { return false; });
  // A daemon that sleeps while the newest changes are made knows no number that is too high.
  const std::shared_ptr<Daemon> sleeper = world_.random.chance(50) ? some_daemon() : nullptr;
  if (sleeper) {
    sleeper->pause(seconds(1'000));
    run_until(3 * swarm_.lease, [] { return false; });
  }
  const store::SharedMemory copy = disk_.copy();
  run_until(world_.random.between(seconds(1), seconds(4)), [] { return false; });
  if (world_.violation()) return;
  take_state_back(copy);
  for (const auto& client : clients_) client->ask(Set{"after the loss", "1", {}, {}});
  expect_all(" serves a state that is rolled back", [&](const Daemon& daemon) {
    return &daemon == sleeper.get() || (!daemon.rolled_back().empty() && !daemon.serves());
  });
  if (sleeper) {
    sleeper->resume();
    expect_all(" was not told that the state is rolled back", [](const Daemon& daemon) {
      return !daemon.rolled_back().empty() && !daemon.serves();
    });
  }
  records_.all_stopped = true;
  run_until(kStaysStopped, [] { return false; });
  if (world_.violation()) return;
  expect_all(" serves again, though nobody has accepted it",
             [](const Daemon& daemon) { return !daemon.serves(); });
  for (const auto& client : clients_) client->kill();
  records_.all_stopped = false;
  start_daemon(static_cast<unsigned>(fleet_.size()), true);
  expect_all(" does not serve, though an operator has accepted the loss",
             [](const Daemon& daemon) { return daemon.rolled_back().empty() && daemon.serves(); });
}

/// Makes the copy the state, or erases the state, or promotes a server that has the copy while the
/// old one goes on taking changes, or takes back the jobs alone: then the owner of a changed job
/// notices it.
void Simulation::take_state_back(const store::SharedMemory& copy) {
  world_.note("state.lost");
  records_.state_lost = true;
  const auto& jobs = disk_.memory().jobs;
  bool changed = false;
  bool same_owners = true;
  for (const auto& [number, before] : copy.jobs) {
    const auto now = jobs.find(number);
    if (number == 0 || now == jobs.end()) continue;
    changed = changed || now->second.head.revision != before.head.revision;
    same_owners = same_owners && now->second.head.epoch == before.head.epoch &&
                  now->second.process == before.process;
  }
  if (world_.random.chance(20)) return disk_.put_back(store::SharedMemory(), false);
  if (world_.random.chance(30)) {
    disk_.promote(copy);
    for (const auto& daemon : fleet_) daemon->reach_promoted();
    return;
  }
  disk_.put_back(copy, changed && same_owners && world_.random.chance(40));
}

}  // namespace c10dd::sim
