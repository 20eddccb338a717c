// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/relays.h"

#include <utility>

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

void Relays::begin() {
  if (stopped_) return;
  const auto daemon = fleet_[random_.below(fleet_.size())];
  if (!daemon->dead()) come(daemon, false);
  world_.after(random_.between(milliseconds(20), milliseconds(400)), [this] { begin(); });
}

Relays::RelayRef Relays::relay_of(const std::shared_ptr<Daemon>& daemon) {
  RelayRef& relay = relays_[daemon->number()];
  if (relay) return relay;
  relay = std::make_shared<Relay>();
  relay->daemon = daemon;
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
  relay->launches = std::make_shared<core::JobLaunches>(
      std::string(kJob),
      core::JobLaunches::Shell{
          core::JobLaunches::volatile_runs(daemon->directory(), std::string(kJob),
                                           [&host] { return host.job_time(); }),
          later, [](const core::PlainRuns::Note&) {}},
      std::make_shared<core::RunClaim>(host, std::move(settings)));
  return relay;
}

void Relays::come(const std::shared_ptr<Daemon>& daemon, bool passed_on) {
  const RelayRef relay = relay_of(daemon);
  post(relay, [this, relay, passed_on] {
    relay->launches->locate([this, relay, passed_on](const Result<core::RunClaim::Owner>& owner) {
      if (!owner) return;  // the connection is closed
      if (owner->here()) return request(relay);
      if (!passed_on) pass_on(owner->addresses.front());
    });
  });
}

/// Connects to the daemon that has this address by then.
void Relays::pass_on(const std::string& address) {
  world_.after(random_.between(Duration(0), milliseconds(5)), [this, address] {
    for (const auto& daemon : fleet_) {
      if (address_of(daemon->place()) == address && !daemon->dead()) return come(daemon, true);
    }
  });
}

/// Lets the first request of a connection come, at once or a little later.
void Relays::request(const RelayRef& relay) {
  world_.after(random_.skewed(Duration(0), milliseconds(500)), [this, relay] {
    post(relay, [this, relay] {
      relay->launches->confirm([this, relay](const Result<void>& owner) {
        if (owner) bind(relay);
      });
    });
  });
}

/// Called in a turn of the daemon.
void Relays::bind(const RelayRef& relay) {
  // A daemon that is alone binds connections while its engine cannot be reached. One of a fleet may
  // lose its engine in the turn in which it binds one, which it then closes.
  if (!relay->daemon->is_alone() && owned_by_another(*relay->daemon)) {
    return violated("daemon " + std::to_string(relay->daemon->number()) +
                    " binds a connection, but another daemon owns the job");
  }
  const Connection connection = ++newest_;
  using First = core::PlainRuns::First;
  const core::PlainRuns::Peer peer{"10.0.0." + std::to_string(random_.below(2)), random_.below(4)};
  const First first{random_.chance(70) ? First::Kind::join : First::Kind::other};
  if (!relay->launches->bind(connection, peer, first)) return;
  relay->open.insert(connection);
  relay->launches->opened(
      connection, [this, weak = std::weak_ptr(relay), connection](const Failure&) {
        const RelayRef closing = weak.lock();
        if (!closing || closing->open.erase(connection) == 0) return;
        post(closing, [closing, connection] { closing->launches->ended(connection); });
      });
  if (random_.chance(30)) set_key(relay, connection);
  if (random_.chance(10)) return;  // stays as long as the daemon has the job
  world_.after(random_.skewed(milliseconds(10), seconds(8)), [this, relay, connection] {
    post(relay, [this, relay, connection] { leave(relay, connection); });
  });
}

/// Lets a connection tell the address of its rank.
void Relays::set_key(const RelayRef& relay, Connection connection) {
  const std::string key = "/default_pg/0//cpu//0/" + std::to_string(random_.below(8));
  world_.after(random_.between(Duration(0), milliseconds(100)), [=, this] {
    post(relay, [=] {
      if (relay->open.contains(connection)) {
        (void)relay->launches->set_keys(connection, {{key, 16}}, false);
      }
    });
  });
}

/// Ends a connection. The session may end later than the client.
void Relays::leave(const RelayRef& relay, Connection connection) {
  if (!relay->open.contains(connection)) return;
  relay->launches->hung_up(connection);
  world_.after(random_.skewed(Duration(0), seconds(1)), [=, this] {
    post(relay, [=] {
      if (relay->open.erase(connection) > 0) relay->launches->ended(connection);
    });
  });
}

/// Returns whether another daemon owns the job by the shared state, whatever daemons believe.
bool Relays::owned_by_another(const Daemon& daemon) const {
  const auto number = daemon.number_of(std::string(kJob));
  if (!number) return false;
  const auto owners = disk_.fleet()->owners({&*number, 1});
  return owners && owners->front() && owners->front()->process != daemon.number();
}

void Relays::ask_all() {
  for (const auto& daemon : fleet_) {
    if (daemon->dead()) continue;
    const RelayRef relay = relay_of(daemon);
    daemon->first_shard().post([this, relay] {
      relay->launches->locate([this, relay](const Result<core::RunClaim::Owner>& owner) {
        const Daemon& asked = *relay->daemon;
        answered_[asked.number()] = !owner          ? owner.error().detail
                                    : owner->here() ? address_of(asked.place())
                                                    : owner->addresses.front();
      });
    });
  }
  world_.after(seconds(1), [this] { ask_all(); });
}

std::string Relays::unsettled() const {
  std::string owner;
  for (const auto& daemon : fleet_) {
    const auto answer = answered_.find(daemon->number());
    if (answer == answered_.end()) return format("daemon {} names no owner", daemon->number());
    if (owner.empty()) owner = answer->second;
    if (answer->second != owner) {
      return format("daemons name two owners, {} and {}", owner, answer->second);
    }
  }
  for (const auto& [number, relay] : relays_) {
    if (relay->daemon->dead()) continue;
    if (!relay->open.empty() && address_of(relay->daemon->place()) != owner) {
      return format("daemon {} has connections, but the owner is {}", number, owner);
    }
    if (const core::AuditResult wrong = relay->launches->audit()) {
      return format("launches of daemon {}: {}", number, *wrong);
    }
  }
  return {};
}

void Relays::end_all() {
  for (const auto& [number, relay] : relays_) {
    post(relay, [relay = relay] {
      for (const Connection connection : std::exchange(relay->open, {})) {
        relay->launches->ended(connection);
      }
    });
  }
}

std::string Relays::held() const {
  for (const auto& [number, relay] : relays_) {
    if (relay->daemon->dead()) continue;
    if (!relay->launches->reports().empty()) return format("daemon {} has runs", number);
    if (const core::AuditResult wrong = relay->launches->audit()) {
      return format("launches of daemon {}: {}", number, *wrong);
    }
  }
  return {};
}

}  // namespace c10dd::sim
