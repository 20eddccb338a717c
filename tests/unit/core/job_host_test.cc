// SPDX-License-Identifier: Apache-2.0
// What a host does with sessions, batches, loads, the end of an engine, and jobs of other loops.
#include "daemon/core/host/job_host.h"

#include <array>

#include "daemon/core/job/job.h"
#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(JobHost, LoadsAJobForItsFirstHelloAndAnswersWhenItIsServed) {
  HostWorld world(1);
  const auto sink = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(sink, "a", 1)); });
  EXPECT_EQ(sink->take(), Lines{});
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
  EXPECT_EQ(world.loops[0]->told, (Lines{"load a", "served a"}));
  const auto second = world.join("a", 2);
  EXPECT_EQ(world.loops[0]->told.size(), 2U) << "it is not loaded again";
}

TEST(JobHost, HoldsAnAnswerUntilItsBatchIsDurable) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  EXPECT_EQ(sink->take(), Lines{});
  EXPECT_EQ(world.host().jobs().unfinished(), 1U);
  world.work();
  EXPECT_EQ(sink->take(), Lines{}) << "the result is not taken before the next turn";
  world.loops[0]->turn();
  EXPECT_EQ(sink->take(), Lines{"1:set ok"});
  EXPECT_EQ(world.host().jobs().unfinished(), 0U);
}

TEST(JobHost, GathersWhileABatchIsInFlight) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "1", {}, false}); });
  world.loops[0]->turn([&] { world.ask(sink, 2, Set{"k", "2", {}, false}); });
  world.loops[0]->turn([&] { world.ask(sink, 3, Set{"k", "3", {}, false}); });
  EXPECT_EQ(world.engine_work.size(), 1U);
  world.settle();
  EXPECT_EQ(sink->take(), (Lines{"1:set ok", "1:set ok", "1:set ok"}));
}

TEST(JobHost, ANewerConnectionTakesTheSessionOver) {
  HostWorld world(1);
  const auto older = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(older, 1, Set{"k", "v", {}, false}); });
  const auto newer = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(newer, "a", 1)); });
  EXPECT_EQ(older->take(), Lines{"1:ended session_superseded"});
  world.settle();
  EXPECT_EQ(newer->take(), Lines{"1:hello ok"}) << "the held answer of the older one never leaves";
  world.loops[0]->turn([&] { world.host().detach(older->job, older->attachment); });
  world.loops[0]->turn([&] { world.ask(newer, 1, Set{"k", "v", {}, false}); });
  world.settle();
  EXPECT_EQ(newer->take(), Lines{"1:set ok"}) << "the end of the older one detaches nothing";
}

TEST(JobHost, TellsWhetherARequestIsBlocked) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  const auto submitted = [&](std::uint64_t sequence, const Request& request) {
    Submitted what = Submitted::ignored;
    world.loops[0]->turn([&] {
      what = world.host().submit(sink->job, sink->attachment, {sequence, 0, sequence, 0}, request);
    });
    return what;
  };
  EXPECT_EQ(submitted(1, Set{"k", "v", {}, false}), Submitted::answered);
  EXPECT_EQ(sink->take(), Lines{}) << "the gate still holds the reply";
  EXPECT_EQ(submitted(2, Wait{{"k"}, seconds(9)}), Submitted::answered);
  EXPECT_EQ(submitted(3, Wait{{"later"}, seconds(9)}), Submitted::blocked);
  EXPECT_EQ(submitted(4, Wait{{"later"}, seconds(0)}), Submitted::answered);
  EXPECT_EQ(submitted(5, QueuePop{"q", seconds(9)}), Submitted::blocked);
  EXPECT_EQ(submitted(6, Cancel{5}), Submitted::answered);
  world.loops[0]->turn([&] { world.host().detach(sink->job, sink->attachment); });
  EXPECT_EQ(submitted(7, Get{"k", {}}), Submitted::ignored);
}

TEST(JobHost, AFleetingSessionEndsWithItsConnection) {
  HostWorld world(1);
  const auto other = world.join("a", 1, 0, "r");
  const auto sink = std::make_shared<TestSink>();
  world.loops[0]->turn([&] {
    HelloRequest request = world.hello(sink, "a", 2, "r");
    request.hello.fleeting = true;
    request.hello.c10d = true;
    world.host().hello(std::move(request));
  });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
  EXPECT_TRUE(sink->attachment->from.fleeting);
  EXPECT_FALSE(other->attachment->from.fleeting);
  EXPECT_EQ(sink->job->job->stats().sessions_known, 2U);
  world.loops[0]->turn([&] { world.host().detach(sink->job, sink->attachment); });
  EXPECT_EQ(sink->job->job->stats().sessions_known, 1U);
  EXPECT_TRUE(sink->job->rows.empty());
}

TEST(JobHost, AHelloOnTheSameChannelEndsNothing) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.host().hello(world.hello(sink, "a", 1)); });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
}

TEST(JobHost, RefusesGrowthButAnswersWhatWasAppliedBefore) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  sink->take();
  world.growth.watch("disk", 1'000, 100);
  world.growth.set_free(500);
  world.loops[0]->turn([&] {
    world.ask(sink, 1, Set{"k", "v", {}, false});
    world.ask(sink, 2, Set{"other", "v", {}, false});
    world.ask(sink, 3, Remove{"k"});
    world.ask(sink, 4, Get{"other", {}});
  });
  world.settle();
  std::vector<std::string> got = sink->take();
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (Lines{"1:get not_found", "1:remove ok", "1:set disk_full", "1:set ok"}));
}

TEST(JobHost, ARefusalForWantOfRoomNeedsNoConfirmation) {
  HostWorld world(1, true);
  const auto sink = world.join("a", 1);
  world.growth.watch("disk", 1'000, 100);
  world.growth.set_free(500);
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  EXPECT_EQ(sink->take(), Lines{"1:set disk_full"}) << "in the same turn, without the engine";
}

TEST(JobHost, AReadOfASharedEngineWaitsForAConfirmation) {
  HostWorld world(1, true);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Count{""}); });
  EXPECT_EQ(sink->take(), Lines{});
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:count ok"});
}

TEST(JobHost, DropsAJobThatAnotherOwnerHasClaimed) {
  HostWorld world(1, true);
  const auto sink = world.join("a", 1);
  ASSERT_TRUE(world.engine->claim(sink->job->number));
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:ended not_owner"});
  EXPECT_TRUE(world.host().jobs().empty());
  EXPECT_EQ(world.lost, "") << "the engine works";
}

TEST(JobHost, NobodyIsToldFailedWhenAnOutcomeIsUnknown) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  const auto other = world.join("b", 2);
  world.fail_next = true;
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:ended unavailable"});
  EXPECT_EQ(other->take(), Lines{"1:ended unavailable"});
  EXPECT_EQ(world.lost, "a commit has an unknown outcome");
  const auto early = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(early, "a", 1)); });
  EXPECT_EQ(early->take(), Lines{"1:hello unavailable"});
  world.open();
  world.join("a", 1);
}

TEST(JobHost, ResultsOfAnOlderEngineAreDropped) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  const std::uint64_t older = world.generation;
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  world.engine_work.clear();
  world.open();
  const auto again = world.join("a", 1);
  world.loops[0]->turn([&] { world.ask(again, 1, Set{"k", "v", {}, false}); });
  world.host().committed(older, {1, {store::Outcome::unknown}, {}, {}});
  world.settle();
  EXPECT_EQ(again->take(), Lines{"1:set ok"});
}

TEST(JobHost, AProbeForAnEngineThatIsGoneLoadsNothing) {
  HostWorld world(1);
  const JobLocation before{&world.host(), 1, world.generation, 1};
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  world.loops[0]->turn([&] { world.host().probe(before, "a", ""); });
  world.open();
  world.loops[0]->turn([&] { world.host().probe(before, "a", ""); });
  EXPECT_EQ(world.loops[0]->told, Lines{});
  const JobLocation now{&world.host(), 1, world.generation, 2};
  world.loops[0]->turn([&] { world.host().probe(now, "a", ""); });
  EXPECT_EQ(world.loops[0]->told, Lines{"load a"});
}

TEST(JobHost, RestoresOnePieceInATurn) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  world.loops[0]->turn([&] {
    for (std::uint64_t i = 1; i <= 9; ++i) {
      world.ask(sink, i, Set{std::to_string(i), "v", {}, false});
    }
  });
  world.settle();
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  world.open();
  world.piece_rows = 2;
  const auto again = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(again, "a", 1)); });
  world.work();
  for (int i = 0; i < 20 && !world.engine_work.empty(); ++i) world.work();
  int turns = 0;
  for (; turns < 20 && again->got.empty(); ++turns) {
    EXPECT_EQ(world.host().next_wake().has_value(), turns > 0);
    world.loops[0]->turn();
  }
  EXPECT_GE(turns, 5);
  EXPECT_EQ(again->take(), Lines{"1:hello ok"});
  world.loops[0]->turn([&] { world.ask(again, 20, Count{""}); });
  EXPECT_EQ(world.host().jobs().reports().front().stats.keys, 9U);
}

/// Opens the engine again, with a row of the job that cannot be restored.
void damage(HostWorld& world, JobNumber number) {
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  const store::Claim claim = *world.engine->claim(number);
  const store::JobBatch damage{
      number, claim.epoch, claim.revision, claim.revision + 1, {{Row::Kind::put, "k1", "x"}}};
  ASSERT_EQ(world.engine->commit(std::span(&damage, 1)).front(), store::Outcome::durable);
  world.open();
}

TEST(JobHost, ADamagedJobIsReadAgainAfterAMinute) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  damage(world, sink->job->number);
  const auto ask = [&] {
    const auto again = std::make_shared<TestSink>();
    world.loops[0]->turn([&] { world.host().hello(world.hello(again, "a", 1)); });
    world.settle();
    EXPECT_EQ(again->take(), Lines{"1:hello unavailable"});
    return std::count(world.loops[0]->told.begin(), world.loops[0]->told.end(), "load a");
  };
  EXPECT_EQ(ask(), 2);
  EXPECT_EQ(ask(), 2);
  world.pass(minutes(1));
  EXPECT_EQ(ask(), 3);
}

TEST(JobHost, ADamagedRunIsRetiredAlthoughHellosHaveAskedForIt) {
  HostWorld world(1);
  world.limits.run_grace = seconds(30);
  world.open();
  const auto sink = world.join("a", 1, 0, "r");
  damage(world, sink->job->number);
  const auto again = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(again, "a", 1, "r")); });
  world.settle();
  EXPECT_EQ(again->take(), Lines{"1:hello unavailable"});
  world.pass(seconds(31));
  world.settle();
  EXPECT_EQ(world.struck, Lines{"a/r retired"});
}

TEST(JobHost, ADrainTakesNoHelloAndLetsNoTimePass) {
  HostWorld world(1);
  world.join("a", 1);
  world.host().drain();
  const TimePoint then = world.host().job_time();
  world.pass(minutes(1));
  EXPECT_EQ(world.host().job_time(), then);
  const auto late = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host().hello(world.hello(late, "a", 2)); });
  EXPECT_EQ(late->take(), Lines{"1:hello unavailable"});
  EXPECT_EQ(late->detail, "the daemon is shutting down");
}

TEST(JobHost, AJobThatHadItsShareOfATurnRests) {
  HostWorld world(1);
  const auto sink = world.join("a", 1);
  const auto other = world.join("b", 2);
  std::size_t taken = 1;
  while (!world.host().charge(sink->job, 1)) ++taken;
  EXPECT_EQ(taken, TurnUse::kRequests);
  EXPECT_TRUE(world.host().spent(sink->job));
  EXPECT_FALSE(world.host().spent(other->job));
  EXPECT_TRUE(world.host().charge(other->job, TurnUse::kBytes));
  world.loops[0]->turn();
  EXPECT_FALSE(world.host().spent(sink->job));
  EXPECT_FALSE(world.host().spent(other->job));
}

// ---- several loops
// -------------------------------------------------------------------------------

TEST(JobHosts, ASessionReachesAJobOfAnotherLoop) {
  HostWorld world(2);
  world.join("first", 9);  // on the first loop, so that the next job is on the second
  const auto sink = world.join("b", 1);
  ASSERT_EQ(&sink->job->owner, &world.host(1));
  const int before = sink->flushes;
  world.loops[0]->turn([&] {
    world.ask(sink, 1, Set{"k", "v", {}, false});
    world.ask(sink, 2, Get{"k", {}});
  });
  EXPECT_EQ(sink->take(), Lines{});
  world.settle();
  EXPECT_EQ(sink->take(), (Lines{"1:set ok", "1:get ok"}));
  EXPECT_EQ(sink->flushes, before + 1) << "once per turn";
}

TEST(JobHosts, AWaitOnAnotherLoopIsDroppedWithItsConnection) {
  HostWorld world(2);
  world.join("first", 9);
  const auto sink = world.join("b", 1);
  world.loops[0]->turn([&] { world.ask(sink, 1, Get{"k", minutes(1)}); });
  world.settle();
  EXPECT_EQ(sink->job->job->stats().waiters, 1U);
  world.loops[0]->turn([&] { world.host(0).detach(sink->job, sink->attachment); });
  world.settle();
  EXPECT_EQ(sink->job->job->stats().waiters, 0U);
  EXPECT_EQ(sink->job->job->stats().sessions, 0U);
  EXPECT_EQ(sink->take(), Lines{});
}

TEST(JobHosts, ALateRequestOfAnOlderConnectionIsNotTaken) {
  HostWorld world(2);
  world.join("first", 9);
  const auto older = world.join("b", 1);
  world.loops[0]->turn([&] { world.ask(older, 1, Count{""}); });
  const auto newer = std::make_shared<TestSink>();
  HelloRequest hello = world.hello(newer, "b", 1);
  hello.connection = 2;
  world.loops[1]->turn([&] { world.host(1).hello(hello); });  // the request comes behind it
  world.settle();
  EXPECT_EQ(newer->take(), Lines{"1:hello ok"});
  EXPECT_EQ(older->take(), Lines{"1:ended session_superseded"});
}

TEST(JobHosts, ARequestThatArrivesAfterItsConnectionHasClosedIsNotTaken) {
  HostWorld world(2);
  world.join("first", 9);
  const auto sink = world.join("b", 1);
  const Revision before = sink->job->job->revision();
  world.loops[0]->turn([&] {
    world.host(0).detach(sink->job, sink->attachment);
    world.ask(sink, 1, Set{"k", "v", {}, false});
  });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{});
  EXPECT_EQ(sink->job->job->revision(), before);
  EXPECT_EQ(world.host(1).jobs().unfinished(), 0U);
}

TEST(JobHosts, ConnectionsOfAnotherLoopShareOneTurn) {
  HostWorld world(2);
  world.join("first", 9);
  const auto sink = world.join("b", 1);
  EXPECT_FALSE(world.host(0).charge(sink->job, 1));
  EXPECT_TRUE(world.host(0).charge(sink->job, TurnUse::kBytes));
  EXPECT_TRUE(world.host(0).spent(sink->job));
  world.loops[0]->turn();
  EXPECT_FALSE(world.host(0).spent(sink->job));
}

/// Rank 0 of the job b waits at a barrier for rank 1, which is on connection 2. Both are connected
/// to loop 0; the job is on loop 1.
class OneRankWaits : public testing::Test {
 protected:
  OneRankWaits() {
    world_.join("first", 9);
    for (const std::uint64_t rank : {0, 1}) {
      HelloRequest hello = world_.hello(ranks_[rank], "b", rank + 1);
      hello.hello.host = "node" + std::to_string(rank);
      hello.hello.rank = static_cast<std::int64_t>(rank);
      hello.hello.fleeting = true;  // it sends no heartbeats
      world_.loops[0]->turn([&] { world_.host(0).hello(hello); });
      world_.settle();
    }
    world_.loops[0]->turn([&] {
      world_.ask(ranks_[0], 1, Barrier{"epoch", 0, 0, 0, 2, minutes(5)});
    });
    world_.settle();
  }

  std::string sentence() {
    world_.settle();
    world_.pass(seconds(2));
    return ranks_[1]->job->job->diagnosis().sentence;
  }

  HostWorld world_{2};
  std::array<std::shared_ptr<TestSink>, 2> ranks_{std::make_shared<TestSink>(),
                                                  std::make_shared<TestSink>()};
};

TEST_F(OneRankWaits, AJobOfAnotherLoopLearnsWhetherTheHostOfAPeerAnswers) {
  const std::string silent = "rank 1 on node1, whose host does not answer";
  EXPECT_EQ(sentence().find(silent), std::string::npos) << sentence();
  const Revision before = ranks_[1]->job->job->revision();
  world_.loops[0]->turn([&] { world_.host(0).answers(ranks_[1]->job, 2, false); });
  EXPECT_EQ(world_.loops[1]->inbox.size(), 1U);
  EXPECT_NE(sentence().find(silent), std::string::npos) << sentence();
  world_.loops[0]->turn([&] { world_.host(0).answers(ranks_[1]->job, 2, true); });
  EXPECT_EQ(sentence().find(silent), std::string::npos) << sentence();
  EXPECT_EQ(ranks_[1]->job->job->revision(), before) << "nothing is stored";
}

TEST_F(OneRankWaits, AJobOfItsOwnLoopLearnsAtOnceWhetherTheHostOfAPeerAnswers) {
  world_.loops[1]->turn([&] { world_.host(1).answers(ranks_[1]->job, 2, false); });
  EXPECT_TRUE(world_.loops[1]->inbox.empty());
  EXPECT_NE(sentence().find("whose host does not answer"), std::string::npos) << sentence();
}

TEST_F(OneRankWaits, ADroppedJobIsNotTold) {
  const JobRef job = ranks_[1]->job;
  world_.loops[1]->turn([&] { world_.host(1).retire(job->number); });
  world_.loops[0]->turn([&] { world_.host(0).answers(job, 2, false); });
  world_.settle();
  EXPECT_EQ(ranks_[1]->take().back(), "1:ended session_expired");
}

TEST(JobHosts, AHeartbeatReachesAJobOfAnotherLoop) {
  HostWorld world(2);
  world.join("first", 9);
  const auto sink = world.join("b", 1);
  world.pass(milliseconds(500));
  world.loops[0]->turn([&] { world.host(0).heard(sink->job, 1); });
  EXPECT_EQ(world.loops[1]->inbox.size(), 1U);
  world.settle();
}

}  // namespace
}  // namespace c10dd::core
