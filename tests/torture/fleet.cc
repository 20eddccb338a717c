// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/fleet.h"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "tests/torture/recorder.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;
using test::FaultyLink;

constexpr unsigned kGets = 8;
constexpr unsigned kAttempts = 20;
constexpr auto kLoyalPatience = 5s;
const std::string kProbe = "probe";
const std::string kQuietJob = "quiet";  // nobody writes to it, so its owner learns nothing by that
constexpr const char* kNames[] = {"SIGKILL", "SIGSTOP", "link cut", "replies lost", "SIGTERM"};

}  // namespace

Fleet::Fleet(const FleetOptions& options, std::uint64_t seed, Visit visit)
    : options_(options), random_(seed), visit_(std::move(visit)), redis_(options.redis_tls) {
  for (unsigned n = 1; n <= options.daemons; ++n) {
    Instance instance;
    instance.link = std::make_unique<FaultyLink>("127.0.0.1:" + std::to_string(redis_.port()));
    DaemonOptions daemon = options.daemon;
    daemon.engine = (options.redis_tls ? "rediss://" : "redis://") + instance.link->address();
    daemon.log = "daemon-" + std::to_string(n) + ".log";
    daemon.further.insert(daemon.further.end(), {"--lease", std::to_string(options.lease)});
    if (options.redis_tls) {
      daemon.further.insert(daemon.further.end(), {"--redis-ca", redis_.ca_file()});
    }
    instance.daemon = std::make_unique<Daemon>(daemon);
    instances_.push_back(std::move(instance));
  }
}

void Fleet::start() {
  for (Instance& instance : instances_) instance.daemon->spawn();
  wait_until_all_serve();
}

std::string Fleet::addresses() const {
  std::string list;
  for (const Instance& instance : instances_)
    list += (list.empty() ? "" : ",") + instance.daemon->address();
  return list;
}

void Fleet::disturb(Client& client) {
  if (random_.chance(15)) {
    forget();
  } else {
    trouble(client);
  }
  wait_until_all_serve();
}

void Fleet::trouble(Client& client) {
  client.store()->set(kProbe, std::to_string(++probe_));
  Instance& owner = this->owner(client);
  Instance& instance = random_.chance(90) ? owner : random_.pick(instances_);
  const auto trouble = static_cast<Trouble>(random_.below(5));
  std::optional<LoyalClient> loyal;
  if (&instance == &owner) loyal.emplace(instance.daemon->address(), kJob, kLoyalPatience);

  begin(trouble, instance);
  const std::uint64_t begun = now();
  try {
    client.store()->set(kProbe, std::to_string(++probe_));
    if (&instance == &owner) {
      figures_.serving_ms[kNames[static_cast<std::size_t>(trouble)]].push_back(
          static_cast<double>(now() - begun) * 1e-6);
    }
    visit_(addresses());
  } catch (const Error& e) {
    broken(instance, std::string("no daemon serves the job: ") + e.what());
  }
  const bool moved = client.address() != owner.daemon->address();
  figures_.takeovers += moved ? 1 : 0;
  if (moved && loyal && loyal->welcome()) hear(trouble, instance, *loyal);
  end(trouble, instance);
}

/// Removes the rows of the daemons from Redis, as an operator might do by mistake, so that another
/// daemon can claim a job at once. The lease of the former owner holds, so only a question to the
/// engine keeps it from answering reads.
void Fleet::forget() {
  auto [former, loyal] = server_of(kQuietJob);
  if (!loyal->set(kProbe, "old", kLoyalPatience)) return;  // it has just lost the job
  Instance& next =
      instances_[(static_cast<std::size_t>(former - instances_.data()) + 1) % instances_.size()];
  const std::string newest = std::to_string(++probe_);
  for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {  // the daemons make their rows again
    redis_.command({"DEL", "c10dd:fleet"});
    LoyalClient other(next.daemon->address(), kQuietJob, kLoyalPatience);
    if (!other.welcome()) continue;
    if (!other.set(kProbe, newest, kLoyalPatience)) broken(next, "the owner of a job sets no key");
    ++figures_.forgotten;
    ++figures_.takeovers;
    figures_.deposed_asked += loyal->ask(kProbe, kGets);
    for (const std::string& value : loyal->listen(kLoyalPatience).values) {
      if (value != newest) {
        broken(*former, "a stale read: " + value + ", the newest value is " + newest,
               history::Fault::lost);
      }
    }
    return;
  }
  broken(next, "no daemon claims a job whose owner has left the fleet");
}

/// Returns the daemon that serves a job, and a client of it.
std::pair<Fleet::Instance*, std::unique_ptr<LoyalClient>> Fleet::server_of(const std::string& job) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  for (;; std::this_thread::sleep_for(20ms)) {
    for (Instance& instance : instances_) {
      auto client = std::make_unique<LoyalClient>(instance.daemon->address(), job, kLoyalPatience);
      if (client->welcome()) return {&instance, std::move(client)};
    }
    if (std::chrono::steady_clock::now() > deadline) {
      broken(instances_.front(), "no daemon serves job " + job);
    }
  }
}

Fleet::Instance& Fleet::owner(const Client& client) {
  const auto instance = std::ranges::find_if(
      instances_, [&](const Instance& one) { return one.daemon->address() == client.address(); });
  if (instance == instances_.end()) throw Broken("a client is at " + client.address());
  return *instance;
}

void Fleet::begin(Trouble trouble, Instance& instance) {
  switch (trouble) {
    case Trouble::kill:
      instance.daemon->kill();
      ++figures_.killed;
      break;
    case Trouble::pause:
      instance.daemon->signal(SIGSTOP);
      ++figures_.frozen;
      break;
    case Trouble::cut:
    case Trouble::lose_replies:
      instance.link->set(trouble == Trouble::cut ? FaultyLink::Mode::cut
                                                 : FaultyLink::Mode::lose_replies);
      ++figures_.links_cut;
      break;
    case Trouble::terminate:
      terminate(instance, "under load");
      ++figures_.ended_gently;
      break;
  }
}

void Fleet::end(Trouble trouble, Instance& instance) {
  switch (trouble) {
    case Trouble::kill:
    case Trouble::terminate:
      instance.daemon->spawn();
      break;
    case Trouble::pause:
      instance.daemon->signal(SIGCONT);
      break;
    case Trouble::cut:
    case Trouble::lose_replies:
      instance.link->set(FaultyLink::Mode::pass);
      break;
  }
}

/// Asks the former owner, when a client has a reply of the new one. The former owner may refuse, or
/// say nothing. It must send no value, because the new owner may have changed it, and it must
/// answer no heartbeat, because the new owner may have declared the member lost.
void Fleet::hear(Trouble trouble, Instance& instance, LoyalClient& loyal) {
  if (trouble == Trouble::kill || trouble == Trouble::terminate) return;
  figures_.deposed_asked += loyal.ask(kProbe, kGets);
  if (trouble == Trouble::pause) {
    pause(random_, 0, 300);
    instance.daemon->signal(SIGCONT);
  }
  const LoyalClient::Heard heard = loyal.listen(kLoyalPatience);
  const std::string newest = std::to_string(probe_);
  if (!heard.values.empty()) {
    broken(instance,
           "a daemon has answered a read after another one had taken the job over: " +
               heard.values.front() + ", the newest value is " + newest,
           history::Fault::lost);
  }
  if (heard.heartbeats > 0) {
    broken(instance, "a daemon has answered a heartbeat after another one had taken the job over");
  }
  if (heard.refused == 0 && !heard.ended) {
    broken(instance, "a daemon that has lost the job says nothing to requests");
  }
}

void Fleet::terminate(Instance& instance, const std::string& when) {
  const auto status = instance.daemon->terminate(kStartPatience);
  if (status == 0) return;
  broken(instance, "SIGTERM " + when + ": " + (status ? describe_end(*status) : "it does not end"));
}

void Fleet::restart(const std::string& when) {
  for (Instance& instance : instances_) {
    terminate(instance, when);
    instance.daemon->spawn();
    wait_until_all_serve();
  }
  visit_(addresses());
}

void Fleet::end() {
  for (Instance& instance : instances_) terminate(instance, "at the end");
}

void Fleet::wait_until_all_serve() {
  const auto deadline =
      std::chrono::steady_clock::now() + kStartPatience + 2 * std::chrono::seconds(options_.lease);
  for (const Instance& instance : instances_) {
    while (!serves(instance)) {
      if (const auto status = instance.daemon->ended()) {
        ++figures_.failed_restarts;
        broken(instance, "the daemon ended by itself: " + describe_end(*status));
      }
      if (std::chrono::steady_clock::now() > deadline) {
        ++figures_.failed_restarts;
        broken(instance, "the daemon does not serve again");
      }
      std::this_thread::sleep_for(20ms);
    }
  }
}

/// Whether the daemon is in the fleet: it serves the job, or says who does.
bool Fleet::serves(const Instance& instance) const {
  try {
    const LoyalClient visitor(instance.daemon->address(), kJob, kLoyalPatience);
    return visitor.welcome() || visitor.welcome().error().code == Code::not_owner;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void Fleet::broken(const Instance& instance, const std::string& text, history::Fault fault) {
  throw Broken(instance.daemon->address() + ": " + text + "\n" + instance.daemon->last_words(),
               fault);
}

}  // namespace c10dd::torture
