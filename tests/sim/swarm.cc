// SPDX-License-Identifier: Apache-2.0
// Draws half of the faults and operations, and special seeds for rare combinations.
#include "tests/sim/swarm.h"

#include <algorithm>
#include <iterator>

#include "protocol/limits.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kFaultNames[] = {"kill",         "power_cut",    "disk_short",  "drain",
                                       "pause",        "disk_error",   "disk_stall",  "takeover",
                                       "reset",        "cut",          "partition",   "refuse",
                                       "client_death", "client_pause", "client_leave"};
static_assert(std::size(kFaultNames) == kFaults);

}  // namespace

const char* name_of(Fault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

namespace {

RendezvousPolicy choose_policy(Random& random, std::uint64_t clients) {
  RendezvousPolicy policy;
  policy.min = static_cast<std::uint32_t>(1 + random.below(clients));
  policy.max = policy.min + static_cast<std::uint32_t>(random.below(4));
  policy.last_call = random.chance(20) ? Duration(0) : random.between(milliseconds(50), seconds(2));
  policy.ttl = random.between(milliseconds(800), seconds(5));
  policy.grace = random.between(milliseconds(50), seconds(2));
  policy.quorum = random.chance(35);
  return policy;
}

/// A change that finds nothing to change stores no reply. If it is repeated on a new connection
/// while its first reply waits for a slow disk, it may find something to change.
void ask_again_on_one_key(Swarm& s) {
  s.faults = {Fault::reset, Fault::disk_stall};
  s.works = {Work::set,           Work::remove,   Work::compare_set, Work::multi_set,
             Work::remove_prefix, Work::transact, Work::push,        Work::pop};
  s.clients = std::max(s.clients, 4U);
  s.keys = 1;
  s.fault_every = milliseconds(200);
  s.group_policy.reset();
}

/// A drain that a slow disk makes longer than the expiry of absent sessions.
void drain_slowly(Swarm& s) {
  s.faults = {Fault::drain, Fault::disk_stall, Fault::partition};
  s.works.push_back(Work::ephemeral);
  s.shared = false;
  s.session_expiry = seconds(3);
  s.fault_every = seconds(1);
}

/// Daemons that claim jobs from each other while the jobs are loaded from a slow disk.
void take_over_while_loading(Swarm& s) {
  s.faults = {Fault::takeover, Fault::takeover, Fault::takeover, Fault::kill, Fault::disk_stall};
  s.works = {Work::set, Work::multi_set, Work::transact, Work::push, Work::remove};
  s.shared = true;
  s.clients = std::max(s.clients, 4U);
  s.keys = 4;
  s.disk_most = milliseconds(30);
  s.fault_every = milliseconds(300);
  s.group_policy.reset();
}

/// A run that is retired soon, with guests that connect just then, also after a restart.
void visit_runs(Swarm& s, Random& random) {
  s.visits = true;
  s.late = 70;
  s.run_grace = random.between(milliseconds(200), seconds(1));
  s.faults = {Fault::reset, Fault::refuse};
  for (const Fault fault : {Fault::kill, Fault::drain, Fault::disk_stall}) {
    if (random.chance(40)) s.faults.push_back(fault);
  }
  s.shards = 1 + static_cast<unsigned>(random.below(3));
  s.shared = false;
  s.rollback = false;
  s.group_policy.reset();
  s.session_expiry = seconds(60);
  s.busy = random.between(seconds(15), seconds(40));
}

/// A job whose processes all die, one after the other, and which starts again.
void start_again(Swarm& s, Random& random) {
  s.relaunch = true;
  s.faults = {Fault::client_death, Fault::client_death, Fault::client_death};
  for (const Fault fault : {Fault::kill, Fault::reset, Fault::partition, Fault::client_leave}) {
    if (random.chance(40)) s.faults.push_back(fault);
  }
  s.works = {Work::barrier, Work::barrier, Work::exchange, Work::add};
  s.clients = 2 + static_cast<unsigned>(random.below(3));
  s.jobs = 1;
  s.shared = false;
  s.group_policy.reset();
  s.session_expiry = seconds(60);
  s.busy = random.between(seconds(20), seconds(60));
  s.fault_every = random.between(seconds(1), seconds(6));
}

}  // namespace

bool Swarm::has(Fault fault) const {
  return std::find(faults.begin(), faults.end(), fault) != faults.end();
}

Swarm choose_swarm(Random& random) {
  Swarm s;
  s.shared = random.chance(25);
  for (std::size_t i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    const bool possible = fault != Fault::takeover || s.shared;
    if (possible && random.chance(45)) s.faults.push_back(fault);
    if (fault == Fault::takeover && s.has(fault)) s.faults.insert(s.faults.end(), 3, fault);
  }
  while (s.works.empty()) {
    for (std::size_t i = 0; i < kWorks; ++i) {
      if (random.chance(50)) s.works.push_back(static_cast<Work>(i));
    }
  }
  s.clients = 2 + static_cast<unsigned>(random.below(6));
  s.jobs = random.chance(20) ? 2 : 1;
  s.shards = random.chance(60) ? 1 + static_cast<unsigned>(random.below(3)) : 1;
  s.outstanding = 1 + static_cast<unsigned>(random.below(random.chance(25) ? 8 : 3));
  s.keys = 1 + static_cast<unsigned>(random.below(4));
  s.busy = random.between(seconds(3), seconds(30));
  s.think = random.chance(50) ? milliseconds(20) : milliseconds(400);
  s.fault_every = random.between(milliseconds(200), seconds(4));
  s.session_expiry = random.chance(50) ? seconds(3) : seconds(60);
  s.disk_most = random.chance(50) ? milliseconds(3) : milliseconds(30);
  s.net_most = random.chance(50) ? milliseconds(1) : milliseconds(50);
  s.fragments = random.chance(30);
  s.drift = random.chance(50);
  if (random.chance(40)) s.history = 4 + random.below(28);
  s.rollback = random.chance(5);
  s.spares = random.chance(30);
  if (random.chance(40)) s.group_policy = choose_policy(random, std::max(1U, s.clients / s.jobs));
  if (random.chance(4)) ask_again_on_one_key(s);
  if (random.chance(4)) drain_slowly(s);
  if (random.chance(4)) take_over_while_loading(s);
  if (random.chance(8)) start_again(s, random);
  if (random.chance(8)) visit_runs(s, random);
  return s;
}

void choose_fleet(Swarm& s, Random& random) {
  if (s.rollback || !random.chance(33)) return;
  if (!s.visits && random.chance(30)) visit_runs(s, random);
  s.daemons = 2 + static_cast<unsigned>(random.below(2));
  s.shared = true;
  // A daemon takes a job over by its own rules, when the owner is dead, paused or cut off.
  std::erase(s.faults, Fault::takeover);
  s.lease = random.chance(50) ? seconds(1) : seconds(2);
  s.busy = std::max<Duration>(s.busy, seconds(15));
  s.loses = random.chance(20);
}

void choose_slow_loads(Swarm& s, Random& random) {
  if (s.relaunch || s.visits || s.rollback || !random.chance(6)) return;
  s.slow_load = random.between(milliseconds(200), seconds(3));
  s.faults = {Fault::kill};
  s.fault_every = random.between(seconds(4), seconds(10));
  s.busy = random.between(seconds(20), seconds(40));
  s.loses = false;
  s.shared = s.fleet();
  s.group_policy = choose_policy(random, std::max(1U, s.clients / s.jobs));
  s.group_policy->ttl = random.chance(50) ? Duration(limits::kSessionTtl) : seconds(5);
}

void choose_short_lives(Swarm& s, Random& random) {
  if (s.fleet() || s.relaunch || s.visits || s.rollback || !random.chance(5)) return;
  s.faults = {Fault::kill, Fault::client_death};
  s.fault_every = random.between(seconds(2), seconds(5));
  s.busy = random.between(seconds(20), seconds(60));
  s.session_expiry = seconds(60);
  s.group_policy = choose_policy(random, 2);
  s.group_policy->last_call = random.between(seconds(5), seconds(15));
}

void choose_strangers(Swarm& s, Random& random) {
  if (!s.fleet() || !random.chance(30)) return;
  s.strangers = true;
  if (!random.chance(50)) return;
  s.untroubled = true;
  s.loses = false;
  std::erase_if(s.faults, [](Fault fault) { return fault < Fault::reset; });
}

}  // namespace c10dd::sim
