// SPDX-License-Identifier: Apache-2.0
// Which of two daemons has the connections of a listener, and what becomes of them in a takeover.
#include "daemon/core/fleet/run_claim.h"

#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A claim of a daemon. What it is told is text.
class Claimant {
 public:
  Claimant(HostWorld& world, std::string job) : world_(world) {
    RunClaim::Settings settings{std::move(job), "", world.process, {}, {}, {}};
    settings.later = [this](Duration time, std::function<void()> then) {
      timers_.emplace_back(world_.clock + time, std::move(then));
    };
    settings.alone = [this] { return world_.directory->fleet()->addresses().empty(); };
    settings.engine_works = [this] {
      return world_.directory->is_open() && world_.host().lease_holds();
    };
    claim_ = std::make_shared<RunClaim>(world.host(), std::move(settings));
  }

  /// Asks. If not `answers`, the engine does nothing.
  void ask(bool answers = true) {
    world_.loops[0]->turn([&] {
      claim_->ask([this](const Result<RunClaim::Owner>& owner) {
        if (!owner) return told.push_back(std::string(name_of(owner.error().code)));
        told.push_back(owner->here() ? "here" : owner->addresses.front());
      });
    });
    if (answers) world_.settle();
  }
  void keep() {
    world_.loops[0]->turn([&] {
      claim_->keep([this](const Failure& why) { told.push_back("deposed: " + why.detail); });
    });
    world_.settle();
  }
  void release() {
    world_.loops[0]->turn([&] { claim_->release(); });
    world_.settle();
  }

  /// Runs the timers that are due. If not `answers`, the engine does nothing.
  void tick(bool answers = true) {
    auto timers = std::exchange(timers_, {});
    for (auto& [at, then] : timers) {
      if (at > world_.clock) {
        timers_.emplace_back(at, std::move(then));
      } else {
        world_.loops[0]->turn(then);
      }
    }
    if (answers) world_.settle();
  }
  Lines take() { return std::exchange(told, {}); }

  Lines told;

 private:
  HostWorld& world_;
  std::shared_ptr<RunClaim> claim_;
  std::vector<std::pair<SteadyTime, std::function<void()>>> timers_;
};

class RunClaims : public testing::Test {
 protected:
  void SetUp() override {
    first.beat(false);
    second.beat(false);
  }

  /// Lets time pass on both; the daemons in `alive` send heartbeats.
  void pass(Duration time, const std::vector<HostWorld*>& alive) {
    for (Duration left = time; left > Duration(0); left -= milliseconds(200)) {
      for (HostWorld* world : {&first, &second}) {
        world->pass(milliseconds(200));
        world->settle();
        if (std::ranges::find(alive, world) != alive.end()) world->beat();
      }
      for (Claimant* claimant : {&a, &b}) claimant->tick();
    }
  }
  std::size_t sessions(HostWorld& world) {
    std::size_t all = 0;
    for (const JobReport& report : world.host().jobs().reports()) all += report.stats.sessions;
    return all;
  }

  std::shared_ptr<store::SharedMemory> memory = std::make_shared<store::SharedMemory>();
  HostWorld first{memory, 1};
  HostWorld second{memory, 2};
  Claimant a{first, "torch"};
  Claimant b{second, "torch"};
};

TEST_F(RunClaims, TheDaemonThatIsAskedFirstHasTheRunAndTheOtherNamesIt) {
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"});
  b.ask();
  EXPECT_EQ(b.take(), Lines{"host1"});
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"});
  EXPECT_EQ(sessions(first), 1U) << "one session for all";
}

TEST_F(RunClaims, AKeptRunIsNotRetired) {
  for (HostWorld* world : {&first, &second}) {
    world->limits.run_grace = seconds(3);
    world->open();
  }
  a.ask();
  a.keep();
  pass(seconds(20), {&first, &second});
  b.ask();
  EXPECT_EQ(b.take(), Lines{"host1"});
  EXPECT_EQ(sessions(first), 1U);
  a.release();
  pass(seconds(11), {&first, &second});
  EXPECT_EQ(sessions(first), 0U);
  pass(seconds(5), {&first, &second});
  EXPECT_EQ(first.struck, Lines{"torch/ retired"}) << "it is idle and empty";
  b.ask();
  EXPECT_EQ(b.take(), Lines{"here"});
}

TEST_F(RunClaims, ASilentOwnerIsWaitedForAndThenReplaced) {
  a.ask();
  a.keep();
  pass(seconds(1), {&second});
  b.ask();
  EXPECT_EQ(b.take(), Lines{}) << "nobody can tell yet";
  pass(seconds(2), {&second});
  EXPECT_EQ(b.take(), Lines{"here"});
  EXPECT_EQ(a.take(), Lines{"here"}) << "it does not know yet";
  pass(seconds(2), {&first, &second});
  EXPECT_EQ(a.take(), Lines{"deposed: job \"torch\" is served by the daemon at host2"});
  a.ask();
  EXPECT_EQ(a.take(), Lines{"host2"});
}

TEST_F(RunClaims, NobodyIsToldHereWhileTheLeaseIsOver) {
  a.ask();
  a.keep();
  EXPECT_EQ(a.take(), Lines{"here"});
  pass(seconds(2), {});
  a.ask();
  EXPECT_EQ(a.take(), Lines{});
  pass(seconds(5), {});
  EXPECT_EQ(a.take(), Lines{});
  pass(seconds(2), {&first});
  EXPECT_EQ(a.take(), Lines{"here"}) << "nobody has taken the run: it is claimed again";
  EXPECT_EQ(sessions(first), 1U);
}

TEST_F(RunClaims, NobodyIsToldHereBetweenTheEndOfTheLeaseAndTheNextTurn) {
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"});
  first.clock += seconds(3);  // the process was paused; no turn has ended since
  first.loops[0]->inbox.clear();
  a.ask();
  EXPECT_EQ(a.take(), Lines{});
}

TEST_F(RunClaims, AnEngineThatIsLostEndsNothingThatIsKept) {
  a.ask();
  a.keep();
  first.loops[0]->turn([&] { first.host().engine_lost("a test"); });
  first.directory->lost();
  a.take();
  a.ask();
  EXPECT_EQ(a.take(), Lines{});
  first.open();
  pass(seconds(1), {&first, &second});
  EXPECT_EQ(a.take(), Lines{"here"});
}

TEST_F(RunClaims, ADaemonThatIsAloneDoesNotWaitForTheEngine) {
  pass(seconds(3), {&first});  // the other one is dead
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"});
  a.keep();
  pass(seconds(3), {});
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"}) << "the lease is over";
  first.loops[0]->turn([&] { first.host().engine_lost("a test"); });
  first.directory->lost();
  pass(seconds(1), {});
  a.ask();
  EXPECT_EQ(a.take(), Lines{"here"});
  first.open();
  pass(seconds(1), {&first});
  EXPECT_EQ(sessions(first), 1U) << "it is claimed again";
}

TEST_F(RunClaims, ADaemonThatIsAloneWaitsAMomentForAnEngineThatHangs) {
  pass(seconds(3), {&first});
  a.ask(false);
  a.tick(false);
  EXPECT_EQ(a.take(), Lines{});
  first.clock += RunClaim::kPatience;
  a.tick(false);
  EXPECT_EQ(a.take(), Lines{"here"});
  a.ask(false);
  EXPECT_EQ(a.take(), Lines{"here"}) << "at once";
  b.ask(false);
  second.clock += RunClaim::kPatience;
  b.tick(false);
  EXPECT_EQ(b.take(), Lines{}) << "one that is not alone waits for the reply";
}

TEST_F(RunClaims, ADaemonThatIsAloneAndCannotReachTheEngineIsDeposedLater) {
  pass(seconds(3), {&first});
  a.ask();
  a.keep();
  pass(seconds(3), {&second});  // it has joined again, unseen by the first one
  b.ask();
  pass(seconds(3), {&second});
  EXPECT_EQ(b.take(), Lines{"here"});
  EXPECT_EQ(a.take(), Lines{"here"});
  pass(seconds(2), {&first, &second});
  EXPECT_EQ(a.take(), Lines{"deposed: job \"torch\" is served by the daemon at host2"});
}

TEST_F(RunClaims, ARunThatTheDirectoryRefuses) {
  Claimant bad(first, "");
  bad.ask();
  EXPECT_EQ(bad.take(), Lines{"invalid_argument"});
}

}  // namespace
}  // namespace c10dd::core
