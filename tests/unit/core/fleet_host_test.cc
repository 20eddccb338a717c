// SPDX-License-Identifier: Apache-2.0
// Two daemons on one state, each turned by hand: who serves a job, and who may not any more.
#include "daemon/core/job/job.h"
#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FleetHosts : public testing::Test {
 protected:
  void SetUp() override {
    first.beat(false);
    second.beat(false);
  }

  /// Lets time pass on both; the daemons in `alive` send heartbeats.
  void pass(Duration time, const std::vector<HostWorld*>& alive) {
    for (Duration left = time; left > Duration(0); left -= milliseconds(400)) {
      for (HostWorld* world : {&first, &second}) {
        world->pass(milliseconds(400));
        if (std::ranges::find(alive, world) != alive.end()) world->beat();
      }
    }
  }

  /// Says hello, and returns what came of it.
  Lines hello(HostWorld& world, const std::string& job, std::uint64_t session,
              const std::string& run = "") {
    sink = std::make_shared<TestSink>();
    world.loops[0]->turn([&] { world.host().hello(world.hello(sink, job, session, run)); });
    world.settle();
    return sink->take();
  }

  void set(HostWorld& world, const std::shared_ptr<TestSink>& on, std::uint64_t sequence,
           const Bytes& value) {
    world.loops[0]->turn([&] { world.ask(on, sequence, Set{"k", value, {}, false}); });
    world.settle();
  }

  std::shared_ptr<store::SharedMemory> memory = std::make_shared<store::SharedMemory>();
  HostWorld first{memory, 1};
  HostWorld second{memory, 2};
  std::shared_ptr<TestSink> sink;
};

TEST_F(FleetHosts, OneServesAJobAndTheOtherNamesIt) {
  first.join("a", 1);
  EXPECT_EQ(hello(second, "a", 2), Lines{"1:hello not_owner"});
  EXPECT_EQ(sink->detail, "job \"a\" is served by the daemon at host1");
  second.join("b", 3);
  EXPECT_EQ(hello(first, "b", 4), Lines{"1:hello not_owner"});
  EXPECT_EQ(hello(first, "a", 5), Lines{"1:hello ok"});
}

TEST_F(FleetHosts, ANewJobGetsOneNumberAndCostsNobodyItsEngine) {
  const JobNumber a = first.join("a", 1)->job->number;
  const JobNumber b = second.join("b", 2)->job->number;
  const JobNumber c = first.join("c", 3)->job->number;
  EXPECT_EQ((std::set{a, b, c}.size()), 3U);
  EXPECT_EQ(first.lost + second.lost, "");
}

TEST_F(FleetHosts, AViewerMakesNoJobAndFindsThatOfAnotherDaemon) {
  EXPECT_EQ(second.observe("a", 1), Lines{"1:hello not_found"});
  EXPECT_TRUE(second.directory->runs().empty());
  first.join("a", 2);
  second.beat();
  second.settle();
  EXPECT_EQ(second.observe("a", 1), Lines{"1:hello not_owner"});
}

TEST_F(FleetHosts, TwoNewJobsThatWereGivenOneNumberAreNotMixed) {
  const auto a = std::make_shared<TestSink>();
  const auto again = std::make_shared<TestSink>();
  const auto b = std::make_shared<TestSink>();
  // Both daemons decide on number 1, and the second one is faster.
  first.loops[0]->turn([&] { first.host().hello(first.hello(a, "a", 1)); });
  second.loops[0]->turn([&] { second.host().hello(second.hello(b, "b", 2)); });
  second.settle();
  first.loops[0]->turn([&] { first.host().hello(first.hello(again, "a", 3)); });
  first.settle();
  EXPECT_EQ(b->take(), Lines{"1:hello ok"});
  EXPECT_EQ(a->take(), Lines{"1:hello ok"});
  EXPECT_EQ(again->take(), Lines{"1:hello ok"});
  EXPECT_EQ(a->job->name, "a");
  EXPECT_EQ(again->job->name, "a");
  EXPECT_NE(a->job->number, b->job->number);
  EXPECT_EQ(again->job->number, a->job->number);
}

TEST_F(FleetHosts, ASilentOwnersJobGoesToTheNextThatIsAsked) {
  const auto owner = first.join("a", 1);
  set(first, owner, 1, "v");
  pass(seconds(1), {&second});
  EXPECT_EQ(hello(second, "a", 2), Lines{"1:hello unavailable"});
  EXPECT_NE(sink->detail.find("which is silent"), std::string::npos) << sink->detail;
  pass(seconds(1), {&second});
  EXPECT_EQ(hello(second, "a", 2), Lines{"1:hello ok"});
  EXPECT_EQ(sink->job->job->revision(), owner->job->job->revision());
}

TEST_F(FleetHosts, AnOwnerWhoseLeaseIsOverServesNobody) {
  first.beat();  // it hears the second one
  const auto owner = first.join("a", 1);
  pass(milliseconds(1600), {});
  EXPECT_EQ(owner->take(), Lines{});
  first.pass(milliseconds(250));
  EXPECT_EQ(owner->take(), Lines{"1:ended unavailable"});
  const Lines others{"host" + std::to_string(second.process)};
  EXPECT_EQ(owner->addresses, others) << "which may serve it";
  EXPECT_EQ(hello(first, "a", 1), Lines{"1:hello unavailable"});
  EXPECT_NE(sink->detail.find("could not renew its lease"), std::string::npos) << sink->detail;
  EXPECT_EQ(sink->addresses, others);
  first.beat();
  EXPECT_EQ(hello(first, "a", 1), Lines{"1:hello ok"}) << "nobody has taken the job";
}

TEST_F(FleetHosts, AnOwnerWhoseLeaseHasLapsedServesNobodyThoughItHoldsAgain) {
  const auto owner = first.join("a", 1);
  FleetNews news{first.clock + HostWorld::kLease, {}, {}, 0};
  const auto hear = [&] {
    first.loops[0]->turn([&] { first.host().heard_from_fleet(news); });
    first.settle();
  };
  hear();
  EXPECT_EQ(owner->take(), Lines{});
  news.lapses = 1;
  hear();
  EXPECT_EQ(owner->take(), Lines{"1:ended unavailable"}) << "another daemon may have the job";
  EXPECT_EQ(hello(first, "a", 1), Lines{"1:hello ok"});
  hear();
  EXPECT_EQ(sink->take(), Lines{}) << "it is the same lapse";
}

TEST_F(FleetHosts, ADeposedOwnerChangesNothing) {
  const auto owner = first.join("a", 1);
  set(first, owner, 1, "v");
  pass(seconds(2), {&second});
  const auto next = second.join("a", 2);
  first.beat();
  EXPECT_EQ(hello(first, "a", 1), Lines{"1:hello not_owner"});
  set(first, owner, 2, "stale");
  EXPECT_EQ(next->job->job->revision(), owner->job->job->revision());
}

TEST_F(FleetHosts, AnOwnerThatBeatsAgainIsNotDeposed) {
  first.join("a", 1);
  pass(seconds(2), {&second});
  first.beat();
  EXPECT_EQ(hello(second, "a", 2), Lines{"1:hello unavailable"})
      << "its silence was seen, but is over";
  second.beat();
  EXPECT_EQ(hello(second, "a", 2), Lines{"1:hello not_owner"});
}

TEST_F(FleetHosts, AClaimBelowWhatWasDurableIsALoss) {
  const auto older = [this] { return memory->jobs; };
  hello(first, "a", 1);
  set(first, sink, 1, "one");
  const auto kept = older();
  set(first, sink, 2, "two");
  first.loops[0]->turn([&] { first.host().engine_lost("a reset"); });
  memory->jobs = kept;
  first.open();
  EXPECT_EQ(hello(first, "a", 2), Lines{"1:hello unavailable"});
  EXPECT_NE(first.lost.find("job \"a\" (number 1) is at revision "), std::string::npos)
      << first.lost;
  EXPECT_TRUE(first.rolled_back);
}

TEST_F(FleetHosts, MembersOfANewOwnerHaveLongerToComeBack) {
  hello(first, "a", 1);
  const auto welcome = first.host().jobs().begin()->second;
  EXPECT_TRUE(welcome->serving);
  pass(seconds(2), {&second});
  second.join("a", 2);
  EXPECT_EQ(second.host().jobs().begin()->second->epoch, 2U);
}

TEST_F(FleetHosts, TheOwnerRetiresARunAndTheOtherFollows) {
  for (HostWorld* world : {&first, &second}) {
    world->limits.run_grace = seconds(3);
    world->open();
  }
  const auto owner = first.join("a", 1, 0, "r");
  const JobNumber number = owner->job->number;
  first.loops[0]->turn([&] { first.ask(owner, 1, Goodbye{}); });
  first.settle();
  for (int i = 0; i < 12; ++i) {
    pass(milliseconds(400), {&first, &second});
    first.settle();
    second.settle();
  }
  EXPECT_EQ(first.struck, Lines{"a/r retired"});
  EXPECT_EQ(second.struck, Lines{});
  EXPECT_FALSE(memory->jobs.contains(number));
  EXPECT_EQ(memory->jobs[0].rows.size(), 2U) << "no entry, no mark";
  EXPECT_GT(second.join("a", 2, 0, "r")->job->number, number);
  EXPECT_EQ(first.lost + second.lost, "");
}

TEST_F(FleetHosts, ManyRunsAreRetiredInParts) {
  first.limits.run_grace = seconds(3);
  first.open();
  for (int i = 0; i < 200; ++i) {
    const auto owner = first.join("a", 100 + i, 0, "r" + std::to_string(i));
    first.loops[0]->turn([&] { first.ask(owner, 1, Goodbye{}); });
  }
  first.settle();
  for (int i = 0; i < 12; ++i) {
    pass(milliseconds(400), {&first, &second});
    first.settle();
  }
  EXPECT_EQ(first.struck.size(), 200U);
  EXPECT_LE(first.most_at_once, 64U) << "meanwhile the commits of the other jobs wait";
  EXPECT_EQ(memory->jobs[0].rows.size(), 2U) << "no entry, no mark";
}

TEST_F(FleetHosts, ARunIsNotRetiredByADaemonThatLostItToAnother) {
  for (HostWorld* world : {&first, &second}) {
    world->limits.run_grace = seconds(8);
    world->open();
  }
  const auto owner = first.join("a", 1, 0, "r");
  first.loops[0]->turn([&] { first.ask(owner, 1, Goodbye{}); });
  first.settle();  // idle from now on
  pass(seconds(2), {&second});
  const auto next = second.join("a", 2, 0, "r");
  for (int i = 0; i < 30; ++i) {
    pass(milliseconds(400), {&first, &second});
    first.settle();
    second.settle();
  }
  EXPECT_EQ(first.struck, Lines{});
  EXPECT_EQ(second.struck, Lines{});
  EXPECT_EQ(next->take(), Lines{});
  EXPECT_EQ(hello(second, "a", 3, "r"), Lines{"1:hello ok"});
}

TEST_F(FleetHosts, AHelloThatWaitedWhenTheLeaseEndedMakesItsRunNotIdle) {
  first.limits.run_grace = seconds(3);
  first.open();
  first.piece_rows = 1;
  set(first, first.join("a", 1, 0, "r"), 1, "v");
  first.open();  // it forgets which runs are in use, and loads them again
  sink = std::make_shared<TestSink>();
  for (const auto& loop : first.loops) loop->host.engine_lost("a test");
  first.open();
  first.loops[0]->turn([&] { first.host().hello(first.hello(sink, "a", 1, "r")); });
  pass(seconds(2), {&second});  // the load does not go on
  EXPECT_EQ(sink->take(), Lines{"1:hello unavailable"});
  for (int i = 0; i < 30; ++i) {
    pass(milliseconds(400), {&first, &second});
    first.settle();
    second.settle();
  }
  EXPECT_EQ(first.struck, Lines{}) << "the session has not expired";
}

TEST_F(FleetHosts, AStaleNameIsLookedUpAgain) {
  second.join("b", 9);  // so that it has read the directory
  const auto owner = first.join("a", 1, 0, "r");
  second.beat();
  second.settle();
  std::optional<Result<void>> removed;
  first.loops[0]->turn([&] { first.ask(owner, 1, Goodbye{}); });
  first.settle();
  first.directory->remove("a", [&](Result<void> done) { removed = done; });
  first.settle();
  ASSERT_TRUE(removed && *removed) << removed->error().detail;
  EXPECT_EQ(hello(second, "a", 2, "r"), Lines{"1:hello unavailable"});
  EXPECT_EQ(hello(second, "a", 2, "r"), Lines{"1:hello ok"});
  EXPECT_NE(sink->job->number, owner->job->number);
}

TEST_F(FleetHosts, ALostEngineEndsChangesThatNobodyWaitsFor) {
  const auto owner = first.join("a", 1, 0, "r");
  first.loops[0]->turn([&] { first.ask(owner, 1, Goodbye{}); });
  first.settle();
  std::optional<Result<void>> removed;
  first.directory->remove("a", [&](Result<void> done) { removed = done; });
  for (int i = 0; i < 20 && memory->jobs.contains(1); ++i) {  // until its rows are erased
    first.work();
    first.loops[0]->turn();
  }
  ASSERT_TRUE(removed && *removed);
  first.directory->lost();  // while the mark is being erased
  first.open();
  first.settle();
  EXPECT_EQ(memory->jobs[0].rows.size(), 2U) << "the mark is gone";
}

TEST_F(FleetHosts, AJobOfAnotherDaemonIsNotRemoved) {
  first.join("a", 1);
  second.beat();
  second.settle();
  std::optional<Result<void>> removed;
  second.directory->remove("a", [&](Result<void> done) { removed = done; });
  second.settle();
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->error().code, Code::not_owner);
  EXPECT_EQ(hello(first, "a", 2), Lines{"1:hello ok"});
}

/// Another daemon changes the directory whenever this one makes a step.
class DirectoryUnderChurn : public FleetHosts {
 protected:
  /// The first daemon gives another run its number.
  void one_more() {
    ++made_;
    first.join("new" + std::to_string(made_), 1'000 + made_);
  }
  /// Lets the second one work, with a change of the first one before each step.
  void work_under_churn(int steps) {
    for (int i = 0; i < steps; ++i) {
      one_more();
      second.work();
      for (const auto& loop : second.loops) loop->turn();
    }
  }

  int made_ = 0;
};

TEST_F(DirectoryUnderChurn, IsReadWholeWithoutLosingAnything) {
  for (int i = 0; i < 3'000; ++i) one_more();
  memory->jobs[0].newest.clear();  // so that it must read everything
  second.beat();
  work_under_churn(8);
  second.beat();
  second.settle();
  EXPECT_EQ(second.lost, "");
  EXPECT_EQ(second.directory->runs().size(), static_cast<std::size_t>(made_));
}

TEST_F(DirectoryUnderChurn, IsReadAgainUntilTheEngineHasKeptWhatChanged) {
  second.beat();
  for (int i = 0; i < 5; ++i) {
    one_more();
    memory->jobs[0].newest.clear();
    second.beat();
    second.work();
    second.loops[0]->turn();
  }
  EXPECT_EQ(second.lost, "");
  second.settle();
  second.beat();
  second.settle();
  EXPECT_EQ(second.directory->runs().size(), static_cast<std::size_t>(made_));
}

TEST_F(DirectoryUnderChurn, AFasterDaemonCostsAChangeAnotherTryOnly) {
  sink = std::make_shared<TestSink>();
  second.loops[0]->turn([&] { second.host().hello(second.hello(sink, "mine", 1)); });
  work_under_churn(3);
  EXPECT_EQ(sink->take(), Lines{}) << "another daemon was faster each time";
  second.settle();
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
  EXPECT_EQ(sink->job->name, "mine");
  std::set<JobNumber> numbers;
  for (const auto& run : second.directory->runs()) numbers.insert(run.number);
  EXPECT_EQ(numbers.size(), static_cast<std::size_t>(made_) + 1);
  EXPECT_EQ(hello(first, "mine", 2), Lines{"1:hello not_owner"});
}

TEST_F(DirectoryUnderChurn, ShowsWhatIsDurableWhileOthersOvertakeAChange) {
  sink = std::make_shared<TestSink>();
  second.loops[0]->turn([&] { second.host().hello(second.hello(sink, "mine", 1)); });
  std::size_t runs = 0;
  second.directory->after_changes([&] { runs = second.directory->runs().size(); });
  EXPECT_EQ(runs, 0u) << "the change may not be made";
  work_under_churn(2);
  EXPECT_EQ(sink->take(), Lines{}) << "another daemon was faster each time";
  EXPECT_GE(runs, 1u);
  EXPECT_LE(runs, 2u) << "it has followed the other daemon, and does not show \"mine\"";
  second.settle();
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
}

TEST_F(DirectoryUnderChurn, WritesNewRunsThatWaitTogether) {
  std::vector<std::shared_ptr<TestSink>> sinks;
  second.loops[0]->turn([&] {
    for (int i = 0; i < 100; ++i) {
      sinks.push_back(std::make_shared<TestSink>());
      // Two sessions for each run: the second one finds a run that is not durable.
      const std::string job = "j" + std::to_string(i / 2);
      second.host().hello(second.hello(sinks.back(), job, 1 + static_cast<std::uint64_t>(i)));
    }
  });
  work_under_churn(1);
  for (const auto& one : sinks) EXPECT_EQ(one->take(), Lines{});
  second.settle();
  for (const auto& one : sinks) EXPECT_EQ(one->take(), Lines{"1:hello ok"});
  EXPECT_LE(memory->jobs[0].newest.size(), 4u) << "the first one, the other daemon's, all others";
  second.beat();
  first.beat();
  first.settle();
  EXPECT_EQ(first.directory->runs().size(), 51u);
  EXPECT_EQ(second.directory->runs().size(), 51u);
}

TEST_F(DirectoryUnderChurn, AsksForATurnAfterItWasOvertakenTwice) {
  sink = std::make_shared<TestSink>();
  second.loops[0]->turn([&] { second.host().hello(second.hello(sink, "mine", 1)); });
  std::vector<bool> turns;
  for (int i = 0; i < 8; ++i) {
    work_under_churn(1);
    if (second.last_directory.rows.empty()) continue;
    turns.push_back(second.last_directory.turn);
    second.last_directory = {};
  }
  EXPECT_GE(turns.size(), 3u);
  for (std::size_t i = 0; i < turns.size(); ++i) EXPECT_EQ(turns[i], i >= 2) << i;
  second.settle();
  second.last_directory = {};
  second.join("other", 2);
  EXPECT_FALSE(second.last_directory.turn) << "it was not overtaken since";
}

TEST_F(DirectoryUnderChurn, DoesNotDelayAHelloForARunThatIsKnown) {
  second.join("known", 1);
  const auto newcomer = std::make_shared<TestSink>();
  second.loops[0]->turn([&] { second.host().hello(second.hello(newcomer, "new", 2)); });
  // The change for the new run is under way, and is not committed.
  sink = std::make_shared<TestSink>();
  second.loops[0]->turn([&] { second.host().hello(second.hello(sink, "known", 3)); });
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
  EXPECT_EQ(newcomer->take(), Lines{});
  second.settle();
  EXPECT_EQ(newcomer->take(), Lines{"1:hello ok"});
}

TEST_F(DirectoryUnderChurn, OfADaemonThatFollowsIsThatOfTheOther) {
  for (HostWorld* world : {&first, &second}) {
    world->limits.run_grace = seconds(3);
    world->open();
  }
  for (int round = 0; round < 12; ++round) {
    const auto gone = first.join("r" + std::to_string(round), 50 + round, 0, "run");
    first.loops[0]->turn([&] { first.ask(gone, 1, Goodbye{}); });
    one_more();
    pass(milliseconds(400), {&first, &second});
    first.settle();
    second.settle();
  }
  first.beat();
  first.settle();
  second.beat();
  second.settle();
  EXPECT_FALSE(first.struck.empty());
  const auto names = [](const HostWorld& world) {
    std::map<JobNumber, std::string> all;
    for (const auto& run : world.directory->runs()) all[run.number] = run.job + "/" + run.run;
    return all;
  };
  EXPECT_EQ(names(first), names(second));
  EXPECT_EQ(first.lost + second.lost, "");
}

}  // namespace
}  // namespace c10dd::core
