// SPDX-License-Identifier: Apache-2.0
// Faults: one now and then, of the kinds that the seed allows, while clients are busy.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

}  // namespace

void Simulation::start_daemon() {
  daemon_ = std::make_shared<Daemon>(world_, swarm_, disk_, records_, some_clock(), ++daemons_);
  daemon_->start();
  network_.listen([daemon = daemon_](const LinkRef& link) { daemon->accept(link); });
}

void Simulation::start_again() {
  world_.after(world_.random.skewed(milliseconds(5), seconds(6)), [this] {
    if (daemon_->dead()) start_daemon();
  });
}

/// On a slow disk it takes long, and who loses the connection meanwhile finds the door closed.
void Simulation::drain() {
  graveyard_.push_back(daemon_);
  if (world_.random.chance(70)) disk_.stall_next();
  const auto closed = [this, who = daemon_.get()] {
    if (who != daemon_.get()) return;
    network_.listen({});
    for (const LinkRef& link : network_.links()) {
      if (world_.random.chance(50)) link->reset();
    }
  };
  daemon_->drain(world_.random.between(seconds(1), seconds(15)), closed, [this] { start_again(); });
}

void Simulation::inject() {
  if (swarm_.faults.empty()) return;
  world_.after(world_.random.between(Duration(0), 2 * swarm_.fault_every), [this] {
    if (faults_over_) return;
    inject(world_.random.pick(swarm_.faults));
    inject();
  });
}

void Simulation::inject(Fault fault) {
  Random& random = world_.random;
  world_.note("fault", static_cast<std::uint64_t>(fault), 0, name_of(fault));
  ++report_.faults[static_cast<std::size_t>(fault)];
  const std::vector<LinkRef> links = network_.links();
  const LinkRef link = links.empty() ? nullptr : links[random.below(links.size())];
  const std::shared_ptr<Client> client = random.pick(clients_);
  switch (fault) {
    case Fault::kill:
    case Fault::power_cut: {
      if (daemon_->dead()) return;
      daemon_->die(fault == Fault::power_cut);
      graveyard_.push_back(daemon_);
      network_.listen({});
      return start_again();
    }
    case Fault::drain:
      if (daemon_->dead()) return;
      return drain();
    case Fault::pause:
      if (random.chance(5)) return daemon_->pause(random.between(minutes(1), minutes(10)));
      return daemon_->pause(random.chance(40) ? random.between(seconds(2), seconds(14))
                                              : random.skewed(milliseconds(10), seconds(2)));
    case Fault::disk_error:
      return disk_.fail_next();
    case Fault::disk_stall:
      return disk_.stall_next();
    case Fault::takeover:
      if (daemon_->dead()) return;
      deposed_.push_back(daemon_);
      ++records_.takeovers;
      for (const LinkRef& each : links) {
        if (random.chance(40)) each->reset();  // some clients come to the new one at once
      }
      return start_daemon();
    case Fault::reset:
      if (link) link->reset();
      return;
    case Fault::cut:
      if (!link) return;
      link->cut(random.chance(50) ? Link::client : Link::daemon);
      if (random.chance(70))
        world_.after(random.skewed(milliseconds(10), seconds(15)), [link] { link->heal(); });
      return;
    case Fault::partition:
      return client->partition(random.skewed(milliseconds(100), seconds(15)));
    case Fault::refuse:
      return network_.refuse_for(random.skewed(milliseconds(10), seconds(5)));
    case Fault::client_death:
      if (swarm_.crew && random.chance(50)) client->vanish();
      client->kill();
      return replace(client);
    case Fault::client_leave:
      client->leave();
      world_.after(random.between(milliseconds(50), seconds(3)), [client] { client->kill(); });
      return replace(client);
    case Fault::client_pause:
      return client->pause(random.skewed(milliseconds(10), seconds(8)));
  }
}

void Simulation::replace(const std::shared_ptr<Client>& client) {
  const Client::Identity old = client->identity();
  old_clients_.push_back(client);
  std::erase(clients_, client);
  teams_[old.job]->replace(old.number, processes_ + 1);
  add_client(old.job, calls_each_ / 3);
}

void Simulation::end_faults() {
  world_.note("faults.over");
  faults_over_ = true;
  network_.heal_all();
  disk_.heal();
  if (daemon_->dead()) start_daemon();
  daemon_->resume();
  for (const auto& daemon : deposed_) daemon->resume();
  for (const auto& client : clients_) client->resume();
}

}  // namespace c10dd::sim
