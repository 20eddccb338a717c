// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/doors.h"

#include <utility>

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
  const auto later = settings.later;
  core::JobHost& host = daemon->first_shard().host();
  door->launches = std::make_shared<core::JobLaunches>(
      std::string(kJob),
      core::JobLaunches::Shell{
          core::JobLaunches::volatile_runs(daemon->directory(), std::string(kJob),
                                           [&host] { return host.job_time(); }),
          later, [](const core::PlainRuns::Note&) {}},
      std::make_shared<core::RunClaim>(host, std::move(settings)));
  return door;
}

void Doors::come(const std::shared_ptr<Daemon>& daemon, bool passed_on) {
  const DoorRef door = door_of(daemon);
  post(door, [this, door, passed_on] {
    door->launches->locate([this, door, passed_on](const Result<core::RunClaim::Owner>& owner) {
      if (!owner) return;  // the connection is closed
      if (owner->here()) return request(door);
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

/// Lets the first request of a connection come, at once or a little later.
void Doors::request(const DoorRef& door) {
  world_.after(random_.skewed(Duration(0), milliseconds(500)), [this, door] {
    post(door, [this, door] {
      door->launches->confirm([this, door](const Result<void>& owner) {
        if (owner) bind(door);
      });
    });
  });
}

/// Called in a turn of the daemon.
void Doors::bind(const DoorRef& door) {
  // A daemon that is alone binds connections while its engine cannot be reached.
  if (!door->daemon->is_alone() && !owns(*door->daemon)) {
    return violated("daemon " + std::to_string(door->daemon->number()) +
                    " binds a connection, but another daemon owns the job");
  }
  const Connection connection = ++newest_;
  using First = core::PlainRuns::First;
  const core::PlainRuns::Peer peer{"10.0.0." + std::to_string(random_.below(2)), random_.below(4)};
  const First first{random_.chance(70) ? First::Kind::join : First::Kind::other};
  if (!door->launches->bind(connection, peer, first)) return;
  door->open.insert(connection);
  door->launches->opened(
      connection, [this, weak = std::weak_ptr(door), connection](const Failure&) {
        const DoorRef closing = weak.lock();
        if (!closing || closing->open.erase(connection) == 0) return;
        post(closing, [closing, connection] { closing->launches->ended(connection); });
      });
  if (random_.chance(30)) set_key(door, connection);
  if (random_.chance(10)) return;  // stays as long as the daemon has the job
  world_.after(random_.skewed(milliseconds(10), seconds(8)), [this, door, connection] {
    post(door, [this, door, connection] { leave(door, connection); });
  });
}

/// Lets a connection tell the address of its rank.
void Doors::set_key(const DoorRef& door, Connection connection) {
  const std::string key = "/default_pg/0//cpu//0/" + std::to_string(random_.below(8));
  world_.after(random_.between(Duration(0), milliseconds(100)), [=, this] {
    post(door, [=] {
      if (door->open.contains(connection)) {
        (void)door->launches->set_keys(connection, {{key, 16}}, false);
      }
    });
  });
}

/// Ends a connection. The session may end later than the client.
void Doors::leave(const DoorRef& door, Connection connection) {
  if (!door->open.contains(connection)) return;
  door->launches->hung_up(connection);
  world_.after(random_.skewed(Duration(0), seconds(1)), [=, this] {
    post(door, [=] {
      if (door->open.erase(connection) > 0) door->launches->ended(connection);
    });
  });
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
      door->launches->locate([this, door](const Result<core::RunClaim::Owner>& owner) {
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
    if (door->daemon->dead()) continue;
    if (!door->open.empty() && address_of(door->daemon->place()) != owner) {
      return format("daemon {} has connections, but the owner is {}", number, owner);
    }
    if (const core::Finding wrong = door->launches->audit()) {
      return format("launches of daemon {}: {}", number, *wrong);
    }
  }
  return {};
}

void Doors::end_all() {
  for (const auto& [number, door] : doors_) {
    post(door, [door = door] {
      for (const Connection connection : std::exchange(door->open, {})) {
        door->launches->ended(connection);
      }
    });
  }
}

std::string Doors::held() const {
  for (const auto& [number, door] : doors_) {
    if (door->daemon->dead()) continue;
    if (!door->launches->reports().empty()) return format("daemon {} has runs", number);
    if (const core::Finding wrong = door->launches->audit()) {
      return format("launches of daemon {}: {}", number, *wrong);
    }
  }
  return {};
}

}  // namespace c10dd::sim
