// SPDX-License-Identifier: Apache-2.0
// The course of a run: busy, calm, audited, judged.
#include "tests/sim/simulation.h"

#include <algorithm>

#include "tests/sim/access_story.h"
#include "tests/sim/hang_story.h"
#include "tests/sim/oracles.h"
#include "tests/unit/core/launch_stories.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kTrainersSeed = 0x7C57;
constexpr std::uint64_t kLeasesSeed = 0x1EA5;
constexpr std::uint64_t kRelaysSeed = 0xD005;
constexpr std::uint64_t kProxiedSeed = 0x960C;
constexpr std::uint64_t kAccessSeed = 0xACCE55;
constexpr std::uint64_t kStrangersSeed = 0x57A6;
constexpr std::uint64_t kThievesSeed = 0x7F1E;
constexpr std::uint64_t kFleetSeed = 0xF1EE;
constexpr std::uint64_t kLoadsSeed = 0x10AD5;
constexpr std::uint64_t kLivesSeed = 0x1269D;  // changes none of the seeds in planted_seeds.txt
constexpr Duration kPatience = seconds(60);    // after the last fault
// By then a dead member is lost: its job is loaded again, a silent link has timed out, and the
// grace has passed.
constexpr Duration kQuiet = seconds(30);
constexpr Duration kQuietInAFleet = seconds(50);

}  // namespace

namespace {

/// The fleet has a random source of its own: it changes nothing for the seeds without one.
Swarm swarm_of(std::uint64_t seed, Random& random) {
  Swarm swarm = choose_swarm(random);
  Random fleet(seed ^ kFleetSeed);
  choose_fleet(swarm, fleet);
  Random strangers(seed ^ kStrangersSeed);
  choose_strangers(swarm, strangers);
  Random loads(seed ^ kLoadsSeed);
  if (!swarm.strangers) choose_slow_loads(swarm, loads);
  Random lives(seed ^ kLivesSeed);
  if (swarm.slow_load == Duration(0)) choose_short_lives(swarm, lives);
  return swarm;
}

}  // namespace

Simulation::Simulation(std::uint64_t seed)
    : seed_(seed),
      world_(Random(seed).next()),
      swarm_(swarm_of(seed, world_.random)),
      disk_(world_, swarm_, records_),
      network_(world_, swarm_) {
  records_.small_history = swarm_.history > 0;
  records_.session_expiry = swarm_.session_expiry;
  records_.group_policy = swarm_.group_policy;
  if (!swarm_.fleet()) return;
  records_.takeovers = 1;
  records_.fleet = true;
}

DriftingClock Simulation::some_clock() {
  const Duration offset = world_.random.between(seconds(1), std::chrono::hours(100));
  const auto ppm = static_cast<std::int64_t>(world_.random.below(100'001)) - 50'000;
  return {offset, swarm_.drift ? ppm : 0};
}

std::shared_ptr<Client> Simulation::add_client(const std::string& job, unsigned calls) {
  Client::Identity identity{++processes_, job};
  auto client = std::make_shared<Client>(world_, swarm_, network_, records_, some_clock(),
                                         std::move(identity), teams_[job], calls);
  clients_.push_back(client);
  client->start();
  return client;
}

void Simulation::start_clients() {
  calls_each_ =
      60 + static_cast<unsigned>(world_.random.below(world_.random.chance(15) ? 1000 : 340));
  if (swarm_.think > milliseconds(100)) {
    swarm_.think = 2 * swarm_.busy * swarm_.outstanding / calls_each_;
  }
  for (unsigned i = 0; i < swarm_.clients; ++i) {
    const std::string job = "job" + std::to_string(1 + i % swarm_.jobs);
    std::shared_ptr<Team>& team = teams_[job];
    if (!team) team = std::make_shared<Team>();
    if (swarm_.relaunch) team->launch = 1;
    team->members.push_back(processes_ + 1);
    add_client(job, calls_each_);
  }
}

/// Lets the daemons ask who their clients are. A random source of their own: they change nothing
/// for the seeds without them.
void Simulation::start_access() {
  Random choice(seed_ ^ kAccessSeed);
  // A client that is refused for its token may fence itself.
  const bool fits = !swarm_.relaunch && !swarm_.rollback && !swarm_.visits && !swarm_.loses &&
                    swarm_.slow_load == Duration(0);
  if (!fits || !choice.chance(15)) return;
  const Duration life = choice.between(seconds(3), seconds(20));
  records_.access = std::make_shared<AccessStory>(world_, choice.next(), life);
  records_.access->begin();
  mind_refused();
}

/// Starts another process in place of one whose first connect was refused, as a launcher does.
void Simulation::mind_refused() {
  for (const std::shared_ptr<Client>& client : std::vector(clients_)) {
    if (client->was_refused()) replace(client);
  }
  if (!faults_over_) world_.after(milliseconds(700), [this] { mind_refused(); });
}

/// A client that shows the token of another job, and must learn nothing.
void Simulation::start_intruder() {
  if (!records_.access) return;
  Client::Identity identity{++processes_, "job1"};
  identity.token_of = "job9";
  intruder_ = std::make_shared<Client>(world_, swarm_, network_, records_, some_clock(),
                                       std::move(identity), std::make_shared<Team>(), 0);
  intruder_->start();
  intruder_->ask(Count{""});
}

/// Lets somebody who knows the sessions of others try to take them. A random source of their own.
void Simulation::start_thieves() {
  if (!records_.access) return;
  thieves_ = std::make_shared<Thieves>(world_, seed_ ^ kThievesSeed, fleet_);
  thieves_->begin();
}

/// Lets some clients of a proxy use the job of the others. A random source of their own: they
/// change nothing for the seeds without them.
void Simulation::start_proxied() {
  Random choice(seed_ ^ kProxiedSeed);
  const bool fits = !swarm_.relaunch && !swarm_.rollback && !swarm_.visits && !swarm_.loses;
  if (!fits || !choice.chance(15)) return;
  for (std::uint64_t i = 0; i < 1 + choice.below(3); ++i) {
    proxied_.push_back(std::make_shared<ProxiedClient>(world_, swarm_, network_, records_,
                                                       some_clock(), ++processes_, choice.next(),
                                                       calls_each_));
    proxied_.back()->start();
  }
}

bool Simulation::run_until(Duration patience, const std::function<bool()>& done) {
  const TimePoint end = world_.now() + patience;
  while (!world_.violation()) {
    if (done()) return true;
    if (!world_.step(end)) return done();
  }
  return true;
}

void Simulation::be_busy() {
  inject();
  run_until(swarm_.busy, [] { return false; });
}

bool Simulation::settled() const { return unsettled().empty(); }

std::string Simulation::unsettled() const {
  std::string text;
  for (const auto& client : clients_) {
    if (client->idle()) continue;
    text += "client " + std::to_string(client->identity().number) + " waits for answers; ";
  }
  for (const auto& client : proxied_) text += client->unsettled();
  for (const auto& daemon : fleet_) text += daemon->unsettled();
  return text;
}

const core::Job* Simulation::job(const std::string& name) const {
  for (const auto& daemon : fleet_) {
    if (const core::Job* job = daemon->job(name)) return job;
  }
  return nullptr;
}

/// Stops new calls and faults. Every call must get its reply within kPatience.
void Simulation::calm_down() {
  end_faults();
  for (const auto& client : clients_) client->stop_asking();
  for (const auto& client : proxied_) client->stop_asking();
  if (run_until(kPatience, [&] { return settled(); })) {
    run_until(seconds(5), [] { return false; });  // cancelled calls are withdrawn
    return check_books();
  }
  std::string text = "60 s after the last fault: " + unsettled();
  for (const Op& op : records_.ops) {
    if (op.answered == 0 && !records_.dead_clients.contains(op.client))
      text += "\n    " + describe(op);
  }
  world_.violated("liveness", text);
}

/// When all is calm, no client holds anything for a call that has ended. A client that has not
/// noticed yet that its daemon died may still wait for the replies to its Cancels.
void Simulation::check_books() {
  const auto wrong = [this] {
    for (const auto& client : clients_) {
      if (std::string text = client->audit(); !text.empty()) return text;
    }
    for (const auto& client : proxied_) {
      if (std::string text = client->audit(); !text.empty()) return text;
    }
    return std::string();
  };
  if (run_until(kPatience, [&] { return wrong().empty(); })) return;
  world_.violated("books", "60 s after all calls have ended: " + wrong());
}

/// Waits until all who watch a group have its newest status. A new watch must get the same one.
void Simulation::fall_quiet() {
  if (!swarm_.group_policy) return;
  run_until(swarm_.fleet() ? kQuietInAFleet : kQuiet, [] { return false; });
  if (world_.violation()) return;
  records_.quiet = world_.next_order();
  records_.dead_by_then = records_.dead_clients;
  for (const auto& client : clients_) {
    client->ask(WatchGroup{std::string(GroupCalls::kGroup), 0, Duration(0)});
  }
  const bool told = run_until(kPatience, [&] { return settled(); });
  for (const auto& client : clients_) client->stop_following();
  if (!told || !run_until(kPatience, [&] { return settled(); })) {
    return world_.violated("liveness", "when all is quiet: " + unsettled());
  }
  run_until(seconds(2), [] { return false; });  // cancelled calls are withdrawn
}

/// Ends all sessions; then a new client reads everything that is left.
void Simulation::audit() {
  for (const auto& daemon : deposed_) daemon->kill();
  for (const auto& client : clients_) client->ask(Goodbye{});
  for (const auto& client : proxied_) client->leave();
  run_until(kPatience, [&] { return settled(); });
  for (const auto& client : clients_) client->kill();
  run_until(swarm_.session_expiry * 12 / 10 + seconds(10), [] { return false; });
  std::vector<std::shared_ptr<Client>> auditors;
  for (const auto& [job, number] : records_.jobs) {
    auditors.push_back(add_client(job, 0));
    Client& auditor = *auditors.back();
    for (const char family : std::string("smnte")) {
      for (unsigned i = 0; i < swarm_.keys; ++i) {
        auditor.ask(Get{family + std::to_string(i), {}});
      }
    }
    auditor.ask(List{"", "", 0});
    auditor.ask(Count{""});
  }
  for (const auto& auditor : auditors) {
    for (unsigned i = 0; i < (proxied_.empty() ? 1 : 2) * swarm_.keys; ++i) {
      const Bytes queue = (i < swarm_.keys ? "q" : "w") + std::to_string(i % swarm_.keys);
      std::size_t last = 0;
      do {
        last = records_.ops.size();
        auditor->ask(QueuePop{queue, {}});
        if (!run_until(kPatience, [&] { return settled(); })) {
          return world_.violated("liveness", "the audit: " + unsettled());
        }
      } while (!world_.violation() && records_.ops[last].good());
    }
  }
  for (const Op& op : records_.ops) {
    const bool audits = std::ranges::any_of(
        auditors, [&](const auto& auditor) { return auditor->identity().number == op.client; });
    if (audits && op.code() == Code::timed_out) {
      return world_.violated("liveness", "the audit: " + describe(op));
    }
  }
  records_.drained = true;
}

/// When all is calm, all daemons must agree on who has the connections of stock trainers.
void Simulation::check_relays() {
  relays_->ask_all();
  if (!run_until(kQuiet, [this] { return relays_->unsettled().empty(); })) {
    return world_.violated("relays", "when all is calm: " + relays_->unsettled());
  }
  relays_->end_all();
  if (run_until(kQuiet, [this] { return relays_->held().empty(); })) return;
  world_.violated("relays", "when all connections have ended: " + relays_->held());
}

/// Each daemon follows the directory at its next heartbeat. Compares the directories once a second,
/// because they are large.
void Simulation::check_strangers() {
  for (Duration waited{0}; waited < kQuiet; waited += seconds(1)) {
    if (world_.violation() || strangers_->unsettled().empty()) return;
    run_until(seconds(1), [] { return false; });
  }
  world_.violated("strangers", "when all is calm: " + strangers_->unsettled());
}

void Simulation::check_inside() {
  if (swarm_.rollback) return check_rollback();
  if (swarm_.visits) return;
  check_left_over();
  for (const auto& [job, number] : records_.jobs) {
    if (!world_.violation()) check_rows(job);
    if (!world_.violation()) check_restored(job);
  }
}

Report Simulation::run() {
  start_access();
  for (unsigned place = 0; place < swarm_.daemons; ++place) start_daemon(place);
  start_clients();
  start_proxied();
  start_intruder();
  start_thieves();
  if (swarm_.visits) {
    visits_ = std::make_unique<Visits>(world_, swarm_, network_, [this] { return some_clock(); });
    visits_->begin();
  }
  // A random source of their own: they change nothing for the seeds without them.
  Random choice(seed_ ^ kTrainersSeed);
  if (choice.chance(10) && !swarm_.fleet()) {
    trainers_ =
        std::make_unique<Trainers>(world_, choice.next(), [this] { return fleet_.front(); });
    trainers_->begin();
  }
  // A rolled-back disk forgets leases, and only one daemon may change the directory of an engine.
  Random leasing(seed_ ^ kLeasesSeed);
  if (leasing.chance(10) && !swarm_.fleet() && !swarm_.rollback && !swarm_.has(Fault::takeover)) {
    leases_ = std::make_unique<Leases>(world_, leasing.next(), [this] { return fleet_.front(); });
    leases_->begin();
  }
  Random passing(seed_ ^ kRelaysSeed);
  if (passing.chance(30) && swarm_.fleet()) {
    relays_ = std::make_unique<Relays>(world_, passing.next(), disk_, fleet_);
    relays_->begin();
  }
  if (swarm_.strangers) {
    strangers_ = std::make_unique<Strangers>(world_, seed_ ^ kStrangersSeed, disk_, fleet_);
    strangers_->begin();
  }
  be_busy();
  if (swarm_.loses) {
    if (!world_.violation()) lose_state();
    return finish();
  }
  if (!world_.violation()) calm_down();
  if (leases_ && !world_.violation()) leases_->check();
  if (trainers_ && !world_.violation()) trainers_->check();
  if (relays_ && !world_.violation()) check_relays();
  if (strangers_ && !world_.violation()) check_strangers();
  if (!world_.violation()) fall_quiet();
  if (!world_.violation()) check_bounds();
  if (const auto wrong = core::LaunchStory(seed_).tell()) world_.violated("launches", *wrong);
  if (const auto wrong = HangStory(seed_).tell()) world_.violated("hangs", *wrong);
  // Where runs are retired soon, a job that is empty before the audit is forgotten.
  if (!world_.violation() && !swarm_.rollback && !swarm_.visits) audit();
  if (!world_.violation()) {
    if (const OptionalViolation bad = judge(records_, &report_.undecided))
      world_.violated(bad->oracle.c_str(), bad->text);
  }
  if (!world_.violation()) check_inside();
  return finish();
}

Report Simulation::finish() {
  report_.seed = seed_;
  report_.hash = world_.trace.hash();
  report_.events = world_.trace.events();
  report_.calls = records_.ops.size();
  report_.simulated = world_.now().time_since_epoch();
  report_.violation = world_.violation();
  if (report_.violation) report_.last_events = world_.trace.last();
  return report_;
}

}  // namespace c10dd::sim
