// SPDX-License-Identifier: Apache-2.0
// A job that is moved to another daemon, with both daemons turned by hand.
#include "daemon/core/job/job.h"
#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;

class FleetMove : public testing::Test {
 protected:
  void SetUp() override {
    for (HostWorld* world : {&first, &second, &third}) world->beat(false);
    member = first.join("a", 1);
    set(1, "v");
  }

  void set(std::uint64_t sequence, const Bytes& value) {
    first.loops[0]->turn([&] { first.ask(member, sequence, Set{"k", value, {}, false}); });
    first.settle();
  }
  /// Begins a move to the second daemon.
  void move() {
    const JobNumber number = member->job->number;
    first.loops[0]->turn([&] {
      first.host().move(number, {2, {"host2"}, [this](Result<void> done) { moved = done; }});
    });
  }
  std::shared_ptr<TestSink> hello(HostWorld& world, std::uint64_t session) {
    auto sink = std::make_shared<TestSink>();
    world.loops[0]->turn([&] { world.host().hello(world.hello(sink, "a", session)); });
    return sink;
  }

  std::shared_ptr<store::SharedMemory> memory = std::make_shared<store::SharedMemory>();
  HostWorld first{memory, 1};
  HostWorld second{memory, 2};
  HostWorld third{memory, 3};
  std::shared_ptr<TestSink> member;
  std::optional<Result<void>> moved;
};

TEST_F(FleetMove, TheNextDaemonHasAllAndTheClientsAreSentThere) {
  move();
  first.settle();
  ASSERT_TRUE(moved && *moved) << moved->error().detail;
  EXPECT_EQ(member->take(), (Lines{"1:set ok", "1:ended not_owner"}));
  EXPECT_EQ(member->detail, "job \"a\" was moved to the daemon at host2");
  EXPECT_TRUE(first.host().jobs().empty());
  EXPECT_EQ(memory->jobs.at(member->job->number).process, 2U) << "before anybody has asked it";
  const auto there = second.join("a", 1);
  EXPECT_EQ(there->job->job->revision(), member->job->job->revision());
  EXPECT_EQ(first.lost, "");
}

TEST_F(FleetMove, NobodyElseGetsTheJobBecauseItWasAskedFirst) {
  move();
  first.settle();
  const auto elsewhere = hello(third, 2);
  third.settle();
  EXPECT_EQ(elsewhere->take(), Lines{"1:hello not_owner"});
  EXPECT_EQ(elsewhere->detail, "job \"a\" is served by the daemon at host2");
  const auto back = hello(first, 3);
  first.settle();
  EXPECT_EQ(back->take(), Lines{"1:hello not_owner"});
}

TEST_F(FleetMove, WhatWasAskedBeforeIsDurableAndWhatIsAskedMeanwhileIsAskedAgain) {
  first.loops[0]->turn([&] { first.ask(member, 2, Set{"k", "before", {}, false}); });
  move();  // the set is being committed
  first.loops[0]->turn([&] { first.ask(member, 3, Set{"k", "during", {}, false}); });
  const auto late = hello(first, 2);
  EXPECT_EQ(late->take(), Lines{}) << "it waits until the job is moved";
  first.settle();
  ASSERT_TRUE(moved && *moved) << moved->error().detail;
  EXPECT_EQ(member->take(), (Lines{"1:set ok", "1:set ok", "1:ended not_owner"}));
  EXPECT_EQ(late->take(), Lines{"1:hello not_owner"});
  const auto there = second.join("a", 1);
  second.loops[0]->turn([&] { second.ask(there, 3, Set{"k", "during", {}, false}); });
  second.settle();
  EXPECT_EQ(there->take(), Lines{"1:set ok"});
  EXPECT_EQ(there->job->job->revision(), member->job->job->revision() + 1);
}

TEST_F(FleetMove, NoDeadlinePassesWhileAJobIsMoved) {
  first.loops[0]->turn([&] {
    first.ask(member, 2, Wait{{"missing"}, std::chrono::milliseconds(300)});
  });
  move();
  first.pass(std::chrono::seconds(1));  // the engine does not reply
  EXPECT_EQ(member->take(), Lines{"1:set ok"}) << "the wait goes on at the next daemon";
  first.settle();
  EXPECT_EQ(member->take(), Lines{"1:ended not_owner"});
}

TEST_F(FleetMove, ADeposedOwnerMovesNothing) {
  memory->jobs.at(member->job->number).process = 3;
  move();
  first.settle();
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->error().code, Code::not_owner);
  EXPECT_EQ(member->take(), (Lines{"1:set ok", "1:ended not_owner"}));
  EXPECT_EQ(memory->jobs.at(member->job->number).process, 3U);
}

TEST_F(FleetMove, ALostEngineEndsTheMove) {
  first.loops[0]->turn([&] { first.ask(member, 2, Set{"k", "w", {}, false}); });
  first.fail_next = true;
  move();
  first.settle();
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->error().code, Code::unavailable);
  EXPECT_EQ(memory->jobs.at(member->job->number).process, 1U);
}

TEST_F(FleetMove, AJobThatIsNotServedIsNotMoved) {
  first.loops[0]->turn([&] {
    first.host().move(4711, {2, {"host2"}, [this](Result<void> done) { moved = done; }});
  });
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->error().code, Code::not_found);
  move();
  moved.reset();
  move();  // twice
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->error().code, Code::not_found);
}

TEST_F(FleetMove, AKnownRunIsServedWithoutAHello) {
  third.beat();
  third.settle();
  first.loops[0]->turn([&] { first.host().retire(member->job->number); });
  first.settle();
  ASSERT_TRUE(first.engine->release({member->job->number, member->job->epoch}));
  std::optional<Result<void>> served;
  const auto runs = third.directory->runs("a");
  ASSERT_EQ(runs.size(), 1U);
  third.loops[0]->turn(
      [&] { third.directory->serve(runs[0], [&](Result<void> done) { served = done; }); });
  third.settle();
  ASSERT_TRUE(served && *served) << served->error().detail;
  EXPECT_EQ(third.host().jobs().numbers_of("a"), std::vector<JobNumber>{member->job->number});
  served.reset();
  second.beat();
  second.settle();
  second.loops[0]->turn(
      [&] { second.directory->serve(runs[0], [&](Result<void> done) { served = done; }); });
  second.settle();
  ASSERT_TRUE(served);
  EXPECT_EQ(served->error().code, Code::not_owner);
  EXPECT_EQ(served->error().addresses, Lines{"host3"});
  second.loops[0]->turn([&] {
    second.directory->serve({"b", "", 99}, [&](Result<void> done) { served = done; });
  });
  EXPECT_EQ(served->error().code, Code::not_found) << "it makes no job";
}

}  // namespace
}  // namespace c10dd::core
