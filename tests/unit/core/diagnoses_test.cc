// SPDX-License-Identifier: Apache-2.0
// What a job says when it does not go on: the diagnosis follows from all its waits.
#include "daemon/core/reports/diagnoses.h"

#include "tests/unit/core/job_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class DiagnosesTest : public JobRun {
 protected:
  static Join join(const RendezvousPolicy& policy, std::uint64_t round = 0,
                   std::int64_t rank = -1) {
    Join one;
    one.group = "world";
    one.policy = policy;
    one.round = round;
    one.rank = rank;
    one.timeout = 10min;
    return one;
  }
};

TEST_F(DiagnosesTest, NameARankThatNeverCameToABarrier) {
  open(1);
  open(2);
  ask(1, barrier("start", 0, 3));
  ask(2, barrier("start", 1, 3));
  pass(900ms, {1, 2});
  EXPECT_EQ(state(), "running");
  pass(200ms, {1, 2});
  EXPECT_EQ(state(), "waiting");
  EXPECT_EQ(sentence(),
            "barrier \"start\" (generation 0, sequence 0) waits for rank 2, which never connected; "
            "2 ranks wait");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{2});
  open(3);
  ask(3, barrier("start", 2, 3));
  pass(1s, {1, 2, 3});
  EXPECT_EQ(state(), "running");
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_.back(), "ended: missing");
  pass(1h, {1, 2, 3});
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(DiagnosesTest, NameASilentRankWithinTwoSeconds) {
  for (std::uint64_t n = 1; n <= 3; ++n) open(n);
  ask(1, barrier("step", 0, 3));
  ask(2, barrier("step", 1, 3));
  pass(2s, {1, 2});
  EXPECT_EQ(state(), "stuck");
  EXPECT_EQ(sentence(),
            "barrier \"step\" (generation 0, sequence 0) waits for rank 2 on host-3 (pid 103), "
            "which is silent; 2 ranks wait");
  EXPECT_EQ(diagnosis().hosts, std::vector<std::string>{"host-3"});
}

TEST_F(DiagnosesTest, NameARankWhoseConnectionHasClosed) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  ask(1, barrier("step", 0, 2));
  drop(2);
  pass(1500ms, {1});
  EXPECT_EQ(state(), "stuck");
  EXPECT_EQ(sentence(),
            "barrier \"step\" (generation 0, sequence 0) waits for rank 1 on host-2 (pid 102), "
            "whose connection has closed; 1 rank waits");
}

TEST_F(DiagnosesTest, FollowTheChainToTheRankForWhichAllWait) {
  for (std::uint64_t n = 1; n <= 4; ++n) open(n);
  ask(1, barrier("a", 0, 2));  // waits for rank 1
  now_ += 100ms;
  ask(2, barrier("b", 1, 3));  // waits for ranks 0 and 2; rank 0 waits in "a": a circle
  pass(2s, {1, 2, 3, 4});
  EXPECT_EQ(name_of(diagnosis().kind), "deadlock");
  EXPECT_EQ(diagnosis().ranks, (std::vector<Rank>{0, 1}));
}

TEST_F(DiagnosesTest, LeaveTheWaitsOfAJobThatGoesOnAlone) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  for (int step = 0; step < 20; ++step) {
    ask(1, barrier("step" + std::to_string(step), 0, 2));
    pass(700ms, {1, 2});
    ask(2, barrier("step" + std::to_string(step), 1, 2));
    pass(100ms, {1, 2});
  }
  EXPECT_TRUE(told_.empty());
}

TEST_F(DiagnosesTest, EndTheTextOfATimeOut) {
  for (std::uint64_t n = 1; n <= 3; ++n) open(n);
  ask(1, barrier("a", 0, 2, 5s));
  ask(2, barrier("b", 1, 3, 10min));
  pass(2s, {1, 2, 3});
  const std::string said = sentence();
  ASSERT_FALSE(said.empty());
  pass(4s, {1, 2, 3});
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_TRUE(failures_[0].detail.ends_with("; diagnosis: " + said)) << failures_[0].detail;
}

TEST_F(DiagnosesTest, SayThatAGenerationIsLost) {
  const RendezvousPolicy policy{.min = 2, .max = 2};
  for (std::uint64_t n = 1; n <= 2; ++n) {
    open(n, -1);
    ask(n, join(policy));
  }
  pass(1500ms, {1, 2});
  EXPECT_EQ(state(), "running");
  pass(4s, {1});
  EXPECT_EQ(name_of(diagnosis().kind), "lost");
  EXPECT_EQ(sentence().substr(0, 59),
            "group \"world\" is broken: rank 1 on host-2 (pid 102) is lost");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
  // The survivor asks for a new generation: from then on it waits for another member.
  ask(1, join(policy, 1));
  pass(2s, {1});
  EXPECT_EQ(state() + ": " + sentence(),
            "waiting: rendezvous of group \"world\" waits for 1 more rank, which never connected; "
            "1 rank waits");
}

TEST_F(DiagnosesTest, NameTheMembersThatARendezvousNeeds) {
  const RendezvousPolicy policy{.min = 4, .max = 4};
  for (std::uint64_t n = 1; n <= 2; ++n) {
    const std::int64_t rank = n == 1 ? 0 : 3;
    open(n, rank);
    ask(n, join(policy, 0, rank));
  }
  pass(2s, {1, 2});
  EXPECT_EQ(sentence(),
            "rendezvous of group \"world\" waits for ranks [1-2], which never connected; 2 ranks "
            "wait");
}

// ---- stock PyTorch -----------------------------------------------------------------------------

TEST_F(DiagnosesTest, NameTheRankWhoseKeyAllWaitFor) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    open_stock(n);
    ask(n, Set{.key = "/default_pg/0//cpu//0/" + std::to_string(n - 1),
               .value = Bytes(154 + 8 * 4, 'v')});
    ask(n, Wait{.keys = {"/default_pg/0//cpu//0/3"}, .timeout = 10min});
  }
  pass(2s);
  EXPECT_EQ(state() + ": " + sentence(),
            "waiting: key \"/default_pg/0//cpu//0/3\" is not set; 3 ranks wait for rank 3, which "
            "never connected");
}

TEST_F(DiagnosesTest, NameARankThatHasLeftItsLaunch) {
  for (std::uint64_t n = 1; n <= 4; ++n) {
    open_stock(n);
    ask(n, Set{.key = "/default_pg/0//cpu//0/" + std::to_string(n - 1),
               .value = Bytes(154 + 8 * 4, 'v')});
  }
  pass(10s);
  EXPECT_TRUE(told_.empty());
  drop(3);
  pass(1900ms);
  EXPECT_TRUE(told_.empty());
  pass(600ms);
  EXPECT_EQ(state() + ": " + sentence(),
            "stuck: the launch waits for rank 2 on host-3 (pid 103), which has left; 3 ranks wait");
  // The others end, too: nothing is left to say.
  drop(1);
  drop(2);
  pass(1s);
  EXPECT_EQ(state(), "waiting");
  drop(4);
  pass(1s);
  EXPECT_EQ(state(), "running");
}

TEST_F(DiagnosesTest, SayNothingOfALaunchThatEndsWell) {
  for (std::uint64_t n = 1; n <= 4; ++n) open_stock(n);
  pass(10s);
  for (std::uint64_t n = 1; n <= 4; ++n) {
    drop(n);
    pass(300ms);
  }
  pass(10s);
  EXPECT_TRUE(told_.empty());
}

TEST_F(DiagnosesTest, CountTheRanksThatHaveNotComeToALaunchOfKnownSize) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    Hello hello = hello_of(n);
    hello.fleeting = hello.c10d = true;
    hello.labels["world_size"] = "4";
    ask(n, hello);
    ask(n, Add{.key = "init/", .delta = 1, .lenient = true});
  }
  pass(3s);  // with NCCL nobody waits in the store, and the keys tell no rank
  EXPECT_EQ(state() + ": " + sentence(),
            "waiting: the launch waits for 1 more rank, which never connected; 3 processes wait");
  open_stock(4);
  pass(2s);
  EXPECT_EQ(state(), "running");
}

TEST_F(DiagnosesTest, NameTheOnlyProcessThatCanBeTheRank) {
  for (std::uint64_t n = 1; n <= 2; ++n) {
    open_stock(n);
    if (n == 1) ask(n, Set{.key = "/default_pg/0//cpu//0/0", .value = Bytes(154 + 8 * 2, 'v')});
  }
  ask(1, Wait{.keys = {"/default_pg/0//cpu//0/1"}, .timeout = 10min});
  pass(2s);
  EXPECT_EQ(sentence(),
            "key \"/default_pg/0//cpu//0/1\" is not set; 1 rank waits for rank 1 on host-2 (pid "
            "102), which is connected, but has not set it");
}

TEST_F(DiagnosesTest, NameARankThatHasGivenUp) {
  for (std::uint64_t n = 1; n <= 2; ++n) open_stock(n);
  ask(2, Set{.key = "/default_pg/0//exception_dump", .value = Bytes("\1\0\0\0", 4)});
  pass(2s);
  EXPECT_EQ(state() + ": " + sentence(),
            "stuck: rank 1 on host-2 (pid 102) has given up a collective, because the watchdog of "
            "its NCCL group timed out; see the files of its flight recorder");
}

TEST_F(DiagnosesTest, TakeAConsumerOfAQueueForNoHang) {
  open(1);
  ask(1, QueuePop{.key = "work", .timeout = 10min});
  pass(1min, {1});
  EXPECT_TRUE(told_.empty());
}

TEST_F(DiagnosesTest, SayWhoWaitsForAKeyOfWhichNothingIsKnown) {
  open(1);
  ask(1, Get{.key = "config", .timeout = 10min});
  pass(2s, {1});
  EXPECT_EQ(state() + ": " + sentence(),
            "waiting: key \"config\" is not set; rank 0 on host-1 (pid 101) waits");
}

}  // namespace
}  // namespace c10dd::core
