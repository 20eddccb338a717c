// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/doors.h"

#include <algorithm>

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

void Doors::begin() {
  if (stopped_) return;
  const auto daemon = fleet_[random_.below(fleet_.size())];
  if (!daemon->dead()) come(daemon, false);
  world_.after(random_.between(milliseconds(20), milliseconds(400)), [this] { begin(); });
}

Doors::DoorRef Doors::door_of(const std::shared_ptr<Daemon>& daemon) {
  DoorRef& door = doors_[daemon->number()];
  if (door) return door;
  door = std::make_shared<Door>();
  door->daemon = daemon;
  core::RunClaim::Settings settings{std::string(kJob), "", daemon->number() << 32, {}, {}, {}};
  settings.later = [this, daemon](Duration time, std::function<void()> then) {
    world_.after(time, [daemon, then = std::move(then)] {
      if (!daemon->dead()) daemon->first_shard().post(then);
    });
  };
  settings.alone = [daemon] { return daemon->is_alone(); };
  settings.engine_works = [daemon] { return daemon->engine_works(); };
  door->claim = std::make_shared<core::RunClaim>(daemon->first_shard().host(), std::move(settings));
  return door;
}

void Doors::come(const std::shared_ptr<Daemon>& daemon, bool passed_on) {
  const DoorRef door = door_of(daemon);
  daemon->first_shard().post([this, door, passed_on] {
    door->claim->ask([this, door, passed_on](const Result<core::RunClaim::Owner>& owner) {
      if (!owner) return;  // the connection is closed
      if (owner->here()) return bind(door);
      if (!passed_on) pass_on(owner->addresses.front());
    });
  });
}

/// Connects to the daemon that has this address by then.
void Doors::pass_on(const std::string& address) {
  world_.after(random_.between(Duration(0), milliseconds(5)), [this, address] {
    for (const auto& daemon : fleet_) {
      if (address_of(daemon->place()) == address && !daemon->dead()) return come(daemon, true);
    }
  });
}

/// Binds a connection, as LaunchRuns does. Called in a turn of the daemon.
void Doors::bind(const DoorRef& door) {
  // A daemon that is alone binds connections while its engine cannot be reached.
  if (!door->daemon->is_alone() && !owns(*door->daemon)) {
    return violated("daemon " + std::to_string(door->daemon->number()) +
                    " binds a connection, but another daemon owns the job");
  }
  ++door->connections;
  door->claim->keep([weak = std::weak_ptr(door)](const Failure&) {
    const DoorRef deposed = weak.lock();
    if (!deposed) return;
    deposed->connections = 0;
    ++deposed->deposed;
  });
  if (random_.chance(10)) return;  // stays as long as the daemon has the job
  world_.after(random_.skewed(milliseconds(10), seconds(8)), [this, door, count = door->deposed] {
    if (!door->daemon->dead()) door->daemon->first_shard().post([=, this] { leave(door, count); });
  });
}

void Doors::leave(const DoorRef& door, std::uint64_t deposed) {
  if (deposed == door->deposed) --door->connections;
  if (door->connections == 0) door->claim->release();
}

/// Returns whether the shared state says that the daemon owns the job, whatever others believe.
bool Doors::owns(const Daemon& daemon) const {
  const auto number = daemon.number_of(std::string(kJob));
  if (!number) return false;
  const auto owners = disk_.fleet()->owners({&*number, 1});
  return owners && owners->front() && owners->front()->process == daemon.number();
}

void Doors::ask_all() {
  for (const auto& daemon : fleet_) {
    if (daemon->dead()) continue;
    const DoorRef door = door_of(daemon);
    daemon->first_shard().post([this, door] {
      door->claim->ask([this, door](const Result<core::RunClaim::Owner>& owner) {
        const Daemon& asked = *door->daemon;
        answered_[asked.number()] = !owner          ? owner.error().detail
                                    : owner->here() ? address_of(asked.place())
                                                    : owner->addresses.front();
      });
    });
  }
  world_.after(seconds(1), [this] { ask_all(); });
}

std::string Doors::unsettled() const {
  std::string owner;
  for (const auto& daemon : fleet_) {
    const auto answer = answered_.find(daemon->number());
    if (answer == answered_.end()) return format("daemon {} names no owner", daemon->number());
    if (owner.empty()) owner = answer->second;
    if (answer->second != owner) {
      return format("daemons name two owners, {} and {}", owner, answer->second);
    }
  }
  for (const auto& [number, door] : doors_) {
    const bool stays = !door->daemon->dead() && door->connections > 0;
    if (stays && address_of(door->daemon->place()) != owner) {
      return format("daemon {} has connections, but the owner is {}", number, owner);
    }
  }
  return {};
}

}  // namespace c10dd::sim
