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
  EXPECT_EQ(state(), "waiting") << "it may be a pause";
  const std::string at_first = sentence();
  pass(1s, {1, 2});
  EXPECT_EQ(state(), "stuck");
  EXPECT_EQ(sentence(), at_first);
  EXPECT_EQ(sentence(),
            "barrier \"step\" (generation 0, sequence 0) waits for rank 2 on host-3 (pid 103), "
            "which is silent; 2 ranks wait");
  EXPECT_EQ(diagnosis().hosts, std::vector<std::string>{"host-3"});
  EXPECT_FALSE(job_.last_stuck());
  const std::string stuck = sentence();
  ask(3, barrier("step", 2, 3));
  pass(1s, {1, 2, 3});
  EXPECT_EQ(state(), "running");
  ASSERT_TRUE(job_.last_stuck());
  EXPECT_EQ(job_.last_stuck()->diagnosis.sentence, stuck);
  EXPECT_LE(now_ - job_.last_stuck()->at, 1s);
  ask(1, barrier("next", 0, 3));
  pass(3s, {1, 2, 3});
  EXPECT_EQ(state(), "waiting") << sentence();
  EXPECT_TRUE(job_.last_stuck()) << "to wait is no news";
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
  for (std::uint64_t n = 1; n <= 3; ++n) open(n);
  ask(1, barrier("a", 0, 3));  // waits for ranks 1 and 2
  now_ += 100ms;
  ask(2, barrier("b", 1, 3));  // waits for ranks 0 and 2; rank 0 waits in "a": a circle
  pass(2s, {1, 2, 3});
  EXPECT_EQ(name_of(diagnosis().kind), "deadlock");
  EXPECT_EQ(state(), "waiting") << "two threads may hold each other's ranks up for a while";
  EXPECT_EQ(diagnosis().ranks, (std::vector<Rank>{0, 1}));
  pass(15s, {1, 2, 3});
  EXPECT_EQ(state(), "stuck");
}

TEST_F(DiagnosesTest, CallACircleOfBarriersStuckOnlyIfNoOtherThreadHasCalled) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  for (int step = 0; step < 2; ++step) {  // in two threads each
    for (const char* name : {"a", "b"}) {
      for (const std::uint64_t n : {1, 2}) {
        ask(n, barrier(name + std::to_string(step), static_cast<Rank>(n - 1), 2));
        if (name == std::string("a") && n == 1) ask(1, barrier("c" + std::to_string(step), 0, 2));
      }
    }
    ask(2, barrier("c" + std::to_string(step), 1, 2));
  }
  ask(1, barrier("a", 0, 2));
  ask(2, barrier("b", 1, 2));
  pass(60s, {1, 2});
  EXPECT_EQ(name_of(diagnosis().kind), "deadlock");
  EXPECT_EQ(state(), "waiting") << "the other thread of rank 0 may come to b";
  ask(1, barrier("c", 0, 2));
  pass(1s, {1, 2});
  EXPECT_EQ(state(), "stuck") << "both threads of rank 0 wait, and rank 1 has one";
  ask(2, barrier("a", 1, 2));  // it has another one
  ask(1, barrier("b", 0, 2));
  ask(2, barrier("c", 1, 2));
  pass(2s, {1, 2});
  EXPECT_EQ(state(), "running");
}

TEST_F(DiagnosesTest, WaitForARankAsLongAsItsGroupDoes) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  for (const std::uint64_t n : {1, 2}) {
    Join join;
    join.group = "team";
    join.timeout = 10s;
    join.policy.min = join.policy.max = 2;
    join.policy.ttl = 10s;
    ask(n, join);
  }
  ask(1, barrier("step", 0, 2, 10min));
  pass(9s, {1});
  EXPECT_EQ(state(), "waiting") << sentence();
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
  pass(2s, {1});
  EXPECT_EQ(state(), "stuck") << sentence();
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
  ask(1, barrier("a", 0, 3, 5s));
  ask(2, barrier("b", 1, 3, 10min));
  pass(2s, {1, 2, 3});
  const std::string said = sentence();
  ASSERT_FALSE(said.empty());
  pass(4s, {1, 2, 3});
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_TRUE(failures_[0].detail.ends_with("; diagnosis: " + said)) << failures_[0].detail;
}

TEST_F(DiagnosesTest, TellALaterTimeOutWhatTheFirstOneWasTold) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  ask(1, barrier("a", 0, 2, 5s));
  ask(2, barrier("b", 1, 2, 9s));
  pass(4s, {1, 2});
  const std::string deadlock = sentence();
  ASSERT_TRUE(deadlock.starts_with("deadlock: ")) << deadlock;
  pass(1500ms, {1, 2});
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(failures_[0].missing.size(), 1U) << "rank 0 has come itself";
  drop(1);  // its process ends
  pass(2s, {2});
  EXPECT_NE(sentence().find("waits for rank 0 on host-1 (pid 101)"), std::string::npos);
  pass(3s, {2});
  ASSERT_EQ(failures_.size(), 2U);
  EXPECT_TRUE(failures_[1].detail.ends_with("; diagnosis: " + deadlock)) << failures_[1].detail;
  ask(2, barrier("c", 1, 2, 3s));
  pass(4s, {2});
  ASSERT_EQ(failures_.size(), 3U);
  EXPECT_NE(failures_[2].detail.find("barrier \"c\""), std::string::npos);
  EXPECT_EQ(failures_[2].detail.find("deadlock"), std::string::npos) << "it began later";
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
            "waiting: rendezvous of group \"world\" waits for 1 more rank; "
            "1 rank waits");
}

TEST_F(DiagnosesTest, AwaitNobodyOfALostGenerationWhoHasFinished) {
  const RendezvousPolicy policy{.min = 3, .max = 3};
  for (std::uint64_t n = 1; n <= 3; ++n) {
    open(n, -1);
    ask(n, join(policy));
  }
  Leave finished;
  finished.group = "world";
  finished.kind = Leave::Kind::finish;
  ask(3, finished);
  pass(5s, {1, 3});
  EXPECT_EQ(name_of(diagnosis().kind), "lost");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1}) << sentence();
  EXPECT_EQ(diagnosis().waiting, 1U) << "the one that has finished waits for nobody";
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
  EXPECT_EQ(
      state() + ": " + sentence(),
      "waiting: the launch waits for rank 2 on host-3 (pid 103), which has left; 3 others are "
      "connected");
  pass(14s);
  EXPECT_EQ(state(), "stuck") << "a launch that ends well has ended by then";
  // The others end, too: nothing is left to say.
  drop(1);
  drop(2);
  pass(1s);
  EXPECT_EQ(state(), "waiting");
  drop(4);
  pass(1s);
  EXPECT_EQ(state(), "running");
}

TEST_F(DiagnosesTest, NameARankBehindAProxyThoughNobodyWaits) {
  for (std::uint64_t n = 1; n <= 4; ++n) {
    open_stock(n, false);
    ask(n, Set{.key = "/default_pg/0//cpu//0/" + std::to_string(n - 1),
               .value = Bytes(154 + 8 * 4, 'v')});
  }
  pass(10s, {1, 2, 3, 4});
  EXPECT_TRUE(told_.empty());
  pass(3s, {1, 2, 4});
  EXPECT_EQ(sentence(),
            "the launch waits for rank 2 on host-3 (pid 103), which is silent; 3 others are "
            "connected");
  pass(2s, {1, 2, 3, 4});
  EXPECT_EQ(state(), "running");
  pass(10s, {1, 2, 3, 4});
  drop(3);
  pass(3500ms, {1, 2, 4});
  EXPECT_EQ(sentence(),
            "the launch waits for rank 2 on host-3 (pid 103), whose connection has closed; 3 "
            "others are connected");
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
            "waiting: the launch waits for 1 more rank; 3 others are connected");
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

// ---- what goes on by itself
// ----------------------------------------------------------------------

TEST_F(DiagnosesTest, BlameNobodyInABarrierWhoseRanksHaveTheirOwnNumbers) {
  for (std::uint64_t n = 1; n <= 5; ++n) open(n);
  ask(1, barrier("tp", 0, 2));  // with the rank 4 of the job
  ask(2, barrier("dp", 1, 2));  // with the rank 3
  pass(2s, {1, 2, 3, 4, 5});
  EXPECT_EQ(name_of(diagnosis().kind), "missing");
  EXPECT_TRUE(diagnosis().ranks.empty()) << sentence();
}

TEST_F(DiagnosesTest, DoNotCountACancelledBarrierAsAWait) {
  for (std::uint64_t n = 1; n <= 2; ++n) open(n);
  ask(1, barrier("a", 0, 2));
  ask(1, Cancel{.sequence = sequence_});
  ask(2, barrier("b", 1, 2));
  pass(2s, {1, 2});
  EXPECT_EQ(name_of(diagnosis().kind), "missing") << sentence();
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{0});
}

TEST_F(DiagnosesTest, LeaveAGroupAloneWhoseMembersWorkInAnotherOne) {
  const RendezvousPolicy policy{.min = 2, .max = 2};
  for (std::uint64_t n = 1; n <= 2; ++n) {
    open(n, -1);
    ask(n, join(policy));
  }
  open(3, -1);
  Leave leave;
  leave.group = "world";
  ask(2, leave);
  Join other = join(policy);
  other.group = "next";
  ask(1, other);
  ask(3, other);
  pass(1min, {1, 2, 3});
  EXPECT_EQ(state(), "running") << sentence();
}

TEST_F(DiagnosesTest, DoNotAccuseAClientOfALaunchThatOnlyUsesItsStore) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    open_stock(n);
    ask(n, Set{.key = "/default_pg/0//cpu//0/" + std::to_string(n - 1),
               .value = Bytes(154 + 8 * 3, 'v')});
  }
  open_stock(9);
  drop(9);
  pass(1h);
  EXPECT_TRUE(told_.empty());
}

TEST_F(DiagnosesTest, TakeAgentsForNoRanks) {
  for (std::uint64_t n = 1; n <= 2; ++n) {
    open_stock(n);
    ask(n, Set{.key = "/none/torchelastic/role_info/" + std::to_string(n - 1), .value = "{}"});
  }
  for (std::uint64_t n = 11; n <= 18; ++n) open_stock(n);
  ask(11, Set{.key = "/default_pg/0//cuda//0", .value = "id"});
  drop(15);
  pass(3s);
  EXPECT_EQ(sentence(),
            "the launch waits for a process on host-15 (pid 115), which has left; 7 others are "
            "connected");
  for (std::uint64_t n = 11; n <= 18; ++n) drop(n);  // the agents start them again
  pass(20s);
  EXPECT_EQ(state(), "running") << sentence();
}

TEST_F(DiagnosesTest, SayNothingOfAListenerThatDoesOtherThings) {
  open(1);
  ask(1, Get{.key = "shutdown", .timeout = 10min});
  for (int i = 0; i < 100; ++i) {
    pass(500ms, {1});
    ask(1, Set{.key = "progress", .value = std::to_string(i)});
  }
  EXPECT_LE(told_.size(), 2U) << "only until it was seen to go on";
  EXPECT_EQ(state(), "running");
}

TEST_F(DiagnosesTest, BoundTheWorkForBarriersOfManyUnknownRanks) {
  open(1);
  for (int i = 0; i < 1'000; ++i) {
    ask(1, barrier("b" + std::to_string(i), 0, limits::kWorldSize));
  }
  pass(3s, {1});
  EXPECT_EQ(
      state() + ": " + sentence(),
      "waiting: barrier \"b0\" (generation 0, sequence 0) waits for 131071 more ranks; 1 rank "
      "waits");
  EXPECT_TRUE(diagnosis().ranks.empty()) << "unknown ranks are counted, not listed";
}

TEST_F(DiagnosesTest, NameARankThatHasGivenUp) {
  for (std::uint64_t n = 1; n <= 2; ++n) open_stock(n);
  ask(2, Set{.key = "/default_pg/0//exception_dump", .value = Bytes("\1\0\0\0", 4)});
  pass(2s);
  EXPECT_EQ(state() + ": " + sentence(),
            "stuck: rank 1 on host-2 (pid 102) has given up a collective, because the watchdog of "
            "its NCCL group timed out; see the files of its flight recorder");
  EXPECT_EQ(diagnosis().hosts, std::vector<std::string>{"host-2"});
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
