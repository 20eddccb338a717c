// SPDX-License-Identifier: Apache-2.0
// Faults: one now and then, of the kinds that the seed allows, while clients are busy.
#include <algorithm>
#include <numeric>

#include "tests/sim/simulation.h"

#include "tests/sim/access_story.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// Cuts a connection in one direction, often only for a while.
void cut_one_way(World& world, const LinkRef& link) {
  link->cut(world.random.chance(50) ? Link::client : Link::daemon);
  if (!world.random.chance(70)) return;
  world.after(world.random.skewed(milliseconds(10), seconds(15)), [link] { link->heal(); });
}

}  // namespace

void Simulation::start_daemon(unsigned place, bool accepts) {
  const auto daemon =
      std::make_shared<Daemon>(world_, swarm_, disk_, records_, some_clock(), ++daemons_, place);
  if (fleet_.size() <= place) fleet_.resize(place + 1);
  fleet_[place] = daemon;
  daemon->start(accepts);
  network_.listen(address_of(place), [daemon](const LinkRef& link) { daemon->accept(link); });
}

void Simulation::start_again(unsigned place) {
  world_.after(world_.random.skewed(milliseconds(5), seconds(6)), [this, place] {
    if (fleet_[place]->dead()) start_daemon(place);
  });
}

/// Drains the daemon, often on a slow disk, so that it takes long. Clients that lose their
/// connection meanwhile are refused.
void Simulation::drain(const std::shared_ptr<Daemon>& daemon) {
  graveyard_.push_back(daemon);
  if (world_.random.chance(70)) disk_.stall_next();
  const unsigned place = daemon->place();
  const auto closed = [this, place, who = daemon.get()] {
    if (who != fleet_[place].get()) return;
    network_.listen(address_of(place), {});
    for (const LinkRef& link : network_.links()) {
      if (world_.random.chance(50)) link->reset();
    }
  };
  daemon->drain(world_.random.between(seconds(1), seconds(15)), closed,
                [this, place] { start_again(place); });
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
  if (clients_.empty()) return;  // the job is about to start again
  const std::shared_ptr<Client> client = random.pick(clients_);
  const std::shared_ptr<Daemon> daemon = swarm_.fleet() ? some_daemon() : fleet_.front();
  switch (fault) {
    case Fault::kill:
    case Fault::power_cut: {
      if (daemon->dead()) return;
      daemon->die(fault == Fault::power_cut);
      graveyard_.push_back(daemon);
      network_.listen(address_of(daemon->place()), {});
      return start_again(daemon->place());
    }
    case Fault::disk_short:
      records_.disk_was_short = true;
      daemon->disk_short_for(random.skewed(milliseconds(50), seconds(4)));
      return;
    case Fault::drain:
      if (daemon->dead()) return;
      return drain(daemon);
    case Fault::pause:
      if (random.chance(5)) return daemon->pause(random.between(minutes(1), minutes(10)));
      return daemon->pause(random.chance(40) ? random.between(seconds(2), seconds(14))
                                             : random.skewed(milliseconds(10), seconds(2)));
    case Fault::disk_error:
      return disk_.fail_next();
    case Fault::disk_stall:
      if (swarm_.fleet() && random.chance(50)) {
        return disk_.hang_for(random.skewed(milliseconds(100), seconds(30)));
      }
      return disk_.stall_next();
    case Fault::takeover:
      if (daemon->dead()) return;
      deposed_.push_back(daemon);
      ++records_.takeovers;
      for (const LinkRef& each : links) {
        if (random.chance(40)) each->reset();  // some clients connect to the new one at once
      }
      return start_daemon();
    case Fault::reset:
      if (link) link->reset();
      return;
    case Fault::cut:
      if (link) cut_one_way(world_, link);
      return;
    case Fault::partition:
      return client->partition(random.skewed(milliseconds(100), seconds(15)));
    case Fault::refuse:
      return network_.refuse_for(random.skewed(milliseconds(10), seconds(5)));
    case Fault::client_death:
      if (swarm_.relaunch && random.chance(75)) return relaunch(client->identity().job);
      if (swarm_.group_policy && random.chance(50)) client->vanish();
      client->kill();
      return replace(client);
    case Fault::client_leave:
      client->leave();
      world_.after(random.between(milliseconds(50), seconds(3)), [client] { client->kill(); });
      return replace(client);
    case Fault::client_pause:
      if (!proxied_.empty() && random.chance(50)) {
        return random.pick(proxied_)->cut_off(random.skewed(milliseconds(10), seconds(8)));
      }
      return client->pause(random.skewed(milliseconds(10), seconds(8)));
  }
}

/// Kills all processes of a job, some a little later than others, then starts the job again.
/// Sometimes one process is not killed but partitioned until long after, so that the daemon takes
/// it for gone before the new launch comes. A daemon that is killed meanwhile could not know that.
void Simulation::relaunch(const std::string& job) {
  if (relaunching_.contains(job)) return;
  const auto next = std::make_shared<Team>();
  next->launch = teams_[job]->launch + 1;
  next->members.resize(world_.random.chance(80) ? teams_[job]->members.size()
                                                : 2 + world_.random.below(3));
  relaunching_[job] = next;
  Duration last{0};
  const bool one_lives = !swarm_.has(Fault::kill) && world_.random.chance(40);
  if (one_lives) {
    const std::shared_ptr<Client> lives = clients_.back();
    clients_.pop_back();
    old_clients_.push_back(lives);
    doomed_.push_back(lives);
    lives->cut_off(world_.random.between(seconds(8), seconds(20)));
    world_.after(seconds(30), [lives] { lives->kill(); });
    last = seconds(3);
  }
  for (const std::shared_ptr<Client>& client : std::exchange(clients_, {})) {
    old_clients_.push_back(client);
    doomed_.push_back(client);
    const Duration later =
        world_.random.chance(50) ? Duration(0) : world_.random.between(Duration(0), seconds(6));
    last = std::max(last, later);
    world_.after(later, [client] { client->kill(); });
  }
  world_.after(last + world_.random.skewed(milliseconds(50), seconds(4)),
               [this, job] { start_launch(job, calls_each_ / 2); });
}

void Simulation::start_launch(const std::string& job, unsigned calls) {
  const auto next = relaunching_.extract(job);
  if (next.empty()) return;
  teams_[job] = next.mapped();
  std::vector<std::uint32_t>& members = teams_[job]->members;
  std::iota(members.begin(), members.end(), processes_ + 1);
  for (std::size_t i = 0; i < members.size(); ++i) add_client(job, calls);
}

void Simulation::replace(const std::shared_ptr<Client>& client) {
  const Client::Identity old = client->identity();
  old_clients_.push_back(client);
  std::erase(clients_, client);
  teams_[old.job]->replace(old.number, processes_ + 1);
  add_client(old.job, faults_over_ ? 0 : calls_each_ / 3);
}

void Simulation::end_faults() {
  world_.note("faults.over");
  faults_over_ = true;
  for (const auto& client : doomed_) client->kill();
  while (!relaunching_.empty()) start_launch(relaunching_.begin()->first, 0);
  network_.heal_all();
  if (visits_) visits_->end();
  if (records_.access) {
    records_.access->stop();
    mind_refused();
  }
  if (trainers_) trainers_->stop();
  if (leases_) leases_->stop();
  if (relays_) relays_->stop();
  if (strangers_) strangers_->stop();
  if (thieves_) thieves_->stop();
  disk_.heal();
  for (unsigned place = 0; place < fleet_.size(); ++place) {
    if (fleet_[place]->dead()) start_daemon(place);
    fleet_[place]->resume();
  }
  for (const auto& daemon : deposed_) daemon->resume();
  for (const auto& client : clients_) client->resume();
  for (const auto& client : proxied_) client->cut_off(Duration(0));
}

}  // namespace c10dd::sim
