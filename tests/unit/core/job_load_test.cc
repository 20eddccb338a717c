// SPDX-License-Identifier: Apache-2.0
// What a host does while it loads jobs: whom it answers, what it says, and which job's turn it is.
#include "daemon/core/host/job_host.h"

#include "daemon/core/job/job.h"
#include "protocol/limits.h"
#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kKeysOfAJob = 20;

class JobLoadTest : public testing::Test {
 protected:
  /// Makes a job with keys, then opens the engine again, so that the job must be loaded.
  void fill(const std::string& job, std::uint64_t session) {
    const auto sink = world_.join(job, session);
    world_.loops[0]->turn([&] {
      for (std::uint64_t i = 1; i <= kKeysOfAJob; ++i) {
        world_.ask(sink, i, Set{"k" + std::to_string(i), "value", {}, false});
      }
    });
    world_.settle();
  }
  void restart() {
    world_.loops[0]->turn([&] { world_.host().engine_lost("a disk"); });
    world_.open();
    world_.piece_rows = 2;
  }

  std::shared_ptr<TestSink> hello(const std::string& job, std::uint64_t session,
                                  bool asks_again = true) {
    const auto sink = std::make_shared<TestSink>();
    HelloRequest request = world_.hello(sink, job, session);
    request.asks_again = asks_again;
    world_.loops[0]->turn([&] { world_.host().hello(std::move(request)); });
    return sink;
  }
  std::uint64_t restored() {
    std::uint64_t rows = 0;
    for (const LoadReport& load : world_.host().jobs().loads()) rows += load.rows;
    return rows;
  }
  /// Lets the engine read one more piece of each job that is loaded.
  void read() {
    world_.work();
    world_.loops[0]->turn();
  }

  HostWorld world_{1};
};

TEST_F(JobLoadTest, AHelloThatWaitsIsToldHowFarTheLoadIsAndMayComeAgain) {
  fill("a", 1);
  restart();
  const auto sink = hello("a", 1);
  read();
  read();
  world_.pass(limits::kLoadAnswer - milliseconds(1));
  EXPECT_EQ(sink->take(), Lines{}) << "most loads are over by then";
  world_.pass(milliseconds(30));
  EXPECT_EQ(sink->take(), Lines{"1:hello unavailable"});
  EXPECT_TRUE(sink->refusal.loading);
  EXPECT_EQ(sink->refusal.retry_after, limits::kLoadRetryMin);
  EXPECT_NE(sink->detail.find("job \"a\" (number 1) is being loaded: 4 of 2"), Bytes::npos)
      << sink->detail;
  EXPECT_NE(sink->detail.find(" bytes) restored in 0."), Bytes::npos) << sink->detail;
  EXPECT_EQ(sink->job, nullptr) << "it has no session";
  const auto again = hello("a", 1);
  world_.settle();
  EXPECT_EQ(again->take(), Lines{"1:hello ok"});
  EXPECT_EQ(sink->take(), Lines{}) << "the first hello is forgotten";
}

TEST_F(JobLoadTest, TheNextWakeIsTheTimeOfTheAnswer) {
  fill("a", 1);
  restart();
  EXPECT_FALSE(world_.host().next_wake());
  const SteadyTime before = world_.clock;
  hello("a", 1);
  ASSERT_TRUE(world_.host().next_wake());
  EXPECT_GE(*world_.host().next_wake(), before + limits::kLoadAnswer);
  EXPECT_LE(*world_.host().next_wake(), before + limits::kLoadAnswer + milliseconds(25));
  world_.pass(seconds(1));
  EXPECT_FALSE(world_.host().next_wake()) << "nobody waits";
}

TEST_F(JobLoadTest, WhoCannotAskAgainWaitsForTheEndOfTheLoad) {
  fill("a", 1);
  restart();
  const auto store_client = hello("a", 2, false);
  const auto member = hello("a", 1);
  world_.pass(seconds(30));
  EXPECT_EQ(store_client->take(), Lines{});
  EXPECT_EQ(member->take(), Lines{"1:hello unavailable"}) << "answered once";
  world_.settle();
  EXPECT_EQ(store_client->take(), Lines{"1:hello ok"});
}

TEST_F(JobLoadTest, EachHelloIsAnsweredInItsTime) {
  fill("a", 1);
  restart();
  const auto first = hello("a", 1);
  world_.pass(milliseconds(200));
  const auto second = hello("a", 2);
  world_.pass(milliseconds(100));
  EXPECT_EQ(first->take(), Lines{"1:hello unavailable"});
  EXPECT_EQ(second->take(), Lines{});
  world_.pass(milliseconds(200));
  EXPECT_EQ(second->take(), Lines{"1:hello unavailable"});
}

TEST_F(JobLoadTest, TheMoreClientsWaitTheLaterTheyComeBack) {
  fill("a", 1);
  restart();
  std::vector<std::shared_ptr<TestSink>> clients;
  for (std::uint64_t i = 1; i <= 5'000; ++i) clients.push_back(hello("a", i));
  world_.pass(milliseconds(300));
  for (const auto& client : clients) {
    ASSERT_EQ(client->take(), Lines{"1:hello unavailable"});
    ASSERT_EQ(client->refusal.retry_after, milliseconds(500));
  }
}

TEST_F(JobLoadTest, AMemberThatComesBackAfterALongLoadIsNotLost) {
  const auto sink = world_.join("a", 1);
  Join join;
  join.group = "g";
  join.policy.min = join.policy.max = 1;
  join.policy.ttl = limits::kSessionTtl;
  join.timeout = seconds(60);
  world_.loops[0]->turn([&] { world_.ask(sink, 1, join); });
  world_.settle();
  EXPECT_EQ(sink->take(), Lines{"1:join ok"});
  restart();
  for (int i = 0; i < 20; ++i) {
    hello("a", 1);
    world_.pass(milliseconds(600));
  }
  hello("a", 1, false);
  world_.settle();
  const JobRef job = world_.host().jobs().find(1);
  ASSERT_TRUE(job && job->serving);
  const auto again = hello("a", 1);
  world_.pass(limits::kSessionTtl - milliseconds(300));
  EXPECT_EQ(again->take(), Lines{"1:hello ok"});
  world_.loops[0]->turn([&] { world_.ask(again, 2, WatchGroup{"g", 0, seconds(1)}); });
  world_.settle();
  EXPECT_EQ(again->take(), Lines{"1:watch_group ok"});
  EXPECT_EQ(job->job->stats().members, 1U);
}

TEST_F(JobLoadTest, JobsThatAreLoadedAtTheSameTimeTakeTurns) {
  fill("a", 1);
  fill("b", 2);
  restart();
  const auto c = world_.join("c", 3);
  const auto a = hello("a", 1, false);
  const auto b = hello("b", 2, false);
  while (!world_.engine_work.empty()) world_.work();
  world_.loops[0]->turn([] {});
  for (std::uint64_t sequence = 1; a->got.empty() || b->got.empty(); ++sequence) {
    ASSERT_LT(sequence, 100U);
    const std::uint64_t before = restored();
    world_.loops[0]->turn([&] { world_.ask(c, sequence, Get{"absent", {}}); });
    EXPECT_EQ(c->take(), Lines{"1:get not_found"}) << "answered in each turn";
    const std::uint64_t rows = restored();
    EXPECT_LE(rows - std::min(rows, before), 2U) << "a piece of one job";
    const std::vector<LoadReport> loads = world_.host().jobs().loads();
    if (loads.size() == 2) {
      EXPECT_LE(std::max(loads[0].rows, loads[1].rows) - std::min(loads[0].rows, loads[1].rows),
                4U);
    }
  }
}

TEST_F(JobLoadTest, LoadsAreReportedUntilTheyEnd) {
  fill("a", 1);
  restart();
  EXPECT_TRUE(world_.host().jobs().loads().empty());
  hello("a", 1);
  read();
  world_.pass(seconds(3));
  const std::vector<LoadReport> loads = world_.host().jobs().loads();
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].name, "a");
  EXPECT_EQ(loads[0].number, 1U);
  EXPECT_EQ(loads[0].rows, 2U);
  EXPECT_GT(loads[0].bytes, 2U);
  EXPECT_GT(loads[0].of_rows, kKeysOfAJob);
  EXPECT_EQ(loads[0].took, seconds(3));
  EXPECT_TRUE(world_.host().jobs().reports().empty());
  world_.settle();
  EXPECT_TRUE(world_.host().jobs().loads().empty());
  EXPECT_EQ(world_.host().jobs().reports().size(), 1U);
}

TEST_F(JobLoadTest, WhoComesBackToALoadThatHasFailedIsToldSoAndTheNextLoadBeginsAnew) {
  fill("a", 1);
  restart();
  const auto waits = hello("a", 1, false);
  const auto told = hello("a", 2);
  read();
  world_.pass(milliseconds(300));
  EXPECT_EQ(told->take(), Lines{"1:hello unavailable"});
  const auto comes_back = hello("a", 2);
  world_.loops[0]->turn([&] { world_.host().engine_lost("a disk"); });
  EXPECT_EQ(waits->take(), Lines{"1:hello unavailable"});
  EXPECT_EQ(comes_back->take(), Lines{"1:hello unavailable"});
  EXPECT_FALSE(comes_back->refusal.loading) << "nobody loads the job now";
  world_.engine_work.clear();
  world_.pass(seconds(1));
  EXPECT_EQ(waits->take(), Lines{}) << "each was answered once";
  EXPECT_EQ(comes_back->take(), Lines{});
  world_.open();
  const auto again = hello("a", 2);
  EXPECT_EQ(world_.host().jobs().loads().front().rows, 0U);
  world_.settle();
  EXPECT_EQ(again->take(), Lines{"1:hello ok"});
}

TEST_F(JobLoadTest, AJobWhoseClientsWereToldToComeBackIsInUse) {
  fill("a", 1);
  restart();
  hello("a", 1);
  world_.pass(milliseconds(300));
  EXPECT_EQ(world_.host().jobs().close(1), 1U);
}

TEST(JobLoad, BeforeItsClaimADaemonDoesNotSayThatItOwnsTheJob) {
  HostWorld world(1, true);
  const auto filled = world.join("a", 1);
  world.loops[0]->turn([&] {
    for (std::uint64_t i = 1; i <= kKeysOfAJob; ++i) {
      world.ask(filled, i, Set{std::to_string(i), "value", {}, false});
    }
  });
  world.settle();
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  world.open();
  world.piece_rows = 2;
  const auto ask = [&] {
    const auto sink = std::make_shared<TestSink>();
    HelloRequest request = world.hello(sink, "a", 1);
    request.asks_again = true;
    world.loops[0]->turn([&] { world.host().hello(std::move(request)); });
    world.pass(milliseconds(300));
    EXPECT_EQ(sink->take(), Lines{"1:hello unavailable"});
    return sink->refusal.loading;
  };
  EXPECT_FALSE(ask());
  world.work();
  EXPECT_TRUE(ask());
}

}  // namespace
}  // namespace c10dd::core
