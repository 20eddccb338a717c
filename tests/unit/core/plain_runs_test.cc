// SPDX-License-Identifier: Apache-2.0
// Which run a connection is bound to: a test for each row of the table, and for each edge of it.
#include "daemon/core/torch/rank_keys.h"
#include "tests/unit/core/plain_runs_world.h"

namespace c10dd::core {
namespace {

TEST(RankKeys, AreThoseOfGlooNcclAndTheAgents) {
  EXPECT_EQ(rank_of_key("/default_pg/0//cpu//0/3"), 3U);
  EXPECT_EQ(rank_of_key("/default_pg//0/12"), 12U);
  EXPECT_EQ(rank_of_key("/default_pg//rank_7"), 7U);
  EXPECT_EQ(rank_of_key("/default_pg/0//cuda//4"), 0U);
  EXPECT_EQ(rank_of_key("/torch.rendezvous.id.0/torchelastic/role_info/2"), 2U);
  EXPECT_EQ(rank_of_key("/none/torchelastic/role_info2"), 2U);
  EXPECT_EQ(rank_of_key("//0/1"), 1U);
  EXPECT_EQ(rank_of_key("//worker/attempt_0/default_pg/0/0/2"), 2U);
  EXPECT_EQ(rank_of_key("/rpc_prefix_0/0/1"), 1U);
  EXPECT_EQ(rank_of_key("//worker/attempt_0/rpc_prefix_12/0/7"), 7U);
  for (const char* key : {"",
                          "/",
                          "3",
                          "/3",
                          "//3",
                          "/0/3",
                          "/a//b/3",
                          "/a//0/b",
                          "/a//0/3/",
                          "/a//0/",
                          "/a//0/-3",
                          "/a//0/99999999999",
                          "/rank_",
                          "/rank_x",
                          "/cuda/4",
                          "init/",
                          "/a//0/ 3",
                          "/epoch/0/0/2",
                          "/default_pg/0/2",
                          "/none/torchelastic/role_info2.FIN",
                          "/none/torchelastic/assigned_ranks/2",
                          "/none/torchelastic/role_info",
                          "/none/torchelastic/role_infos/2"}) {
    EXPECT_EQ(rank_of_key(key), std::nullopt) << key;
  }
}

TEST(PlainNames, AreThoseThatPlainRunsGives) {
  for (const char* name : {"plain-1", "plain-42", "rdzv-", "rdzv-id"}) {
    EXPECT_TRUE(is_plain_name(name)) << name;
  }
  for (const char* name :
       {"", "plain", "plain-", "plain-x", "plain-1x", "Plain-1", "rdzv", "run"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
}

TEST_F(PlainRunsTest, ReadsTheFirstRequest) {
  const auto kind = [](const Request& request) { return PlainRuns::first_request(request).kind; };
  EXPECT_EQ(kind(Add{"init/", 1, true}), Kind::join);
  EXPECT_EQ(kind(Add{"/init/", 1, true}), Kind::other);
  EXPECT_EQ(kind(Add{"init/1", 1, true}), Kind::other);
  EXPECT_EQ(kind(Set{"init/", "1"}), Kind::other);
  EXPECT_EQ(kind(Wait{{"init/"}, {}}), Kind::other);
  EXPECT_EQ(kind(CompareSet{"torch.rendezvous.x", "", ""}), Kind::other);
  EXPECT_EQ(kind(Get{"/torch.rendezvous.x", {}}), Kind::other);
  const auto run = [](const std::string& id) {
    const auto first = PlainRuns::first_request(CompareSet{"/torch.rendezvous." + id, "", "x"});
    EXPECT_EQ(first.kind, Kind::rendezvous);
    EXPECT_TRUE(is_plain_name(first.run));
    return first.run;
  };
  EXPECT_EQ(run("job-7"), "rdzv-job-7");
  EXPECT_EQ(run(""), "rdzv-");
  EXPECT_EQ(run(std::string(200, 'x')), "rdzv-" + std::string(200, 'x'));
  const std::string hashed = run(std::string(201, 'x'));
  EXPECT_EQ(hashed.size(), std::string("rdzv-hash-").size() + 16);
  EXPECT_NE(run(std::string(201, 'y')), hashed);
  EXPECT_NE(run("\n"), run("\r"));
}

// ---- the rows of the table ---------------------------------------------------------------------

TEST_F(PlainRunsTest, ARendezvousIsARunUntilItsLastConnectionEnds) {
  const PlainRuns::First first{Kind::rendezvous, "rdzv-a"};
  EXPECT_EQ(bind(1, peer(1), first), "rdzv-a");
  EXPECT_TRUE(noted("run_began"));
  EXPECT_EQ(bind(2, peer(2), first), "rdzv-a");
  EXPECT_FALSE(noted("run_began"));
  EXPECT_EQ(bind(3, peer(3), {Kind::rendezvous, "rdzv-b"}), "rdzv-b");
  EXPECT_EQ(close(1), Names{});
  EXPECT_EQ(bind(4, peer(4), first), "rdzv-a");  // whoever has ended
  EXPECT_EQ(close(2), Names{});
  EXPECT_EQ(close(4), Names{"rdzv-a"});
  EXPECT_EQ(bind(5, peer(5), first), "rdzv-a");
  EXPECT_TRUE(noted("run_began"));
  EXPECT_EQ(join(6, peer(6)), "plain-1");  // it is never the current run
}

TEST_F(PlainRunsTest, AJoinIsInTheCurrentRunWhileNobodyHasEnded) {
  EXPECT_EQ(join(1, peer(1)), "plain-1");
  EXPECT_EQ(join(2, peer(2)), "plain-1");
  EXPECT_EQ(other(3, peer(3)), "plain-1");
  EXPECT_EQ(close(3), Names{});  // it had not joined
  EXPECT_EQ(join(4, peer(4)), "plain-1");
}

TEST_F(PlainRunsTest, AJoinAfterAnEndBeginsARun) {
  join(1, peer(1));
  join(2, peer(2));
  set(1, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(3)), "plain-2");
  EXPECT_TRUE(noted("run_began"));
  ASSERT_TRUE(noted("launch_split"));
  EXPECT_NE(last_.notes.front().detail.find("run plain-1 has ended and 1 are still connected"),
            std::string::npos);
  EXPECT_EQ(join(4, peer(4)), "plain-2");  // which is current now
  EXPECT_EQ(other(5, peer(5)), "plain-2");
  EXPECT_EQ(close(1), Names{"plain-1"});
}

TEST_F(PlainRunsTest, ARunThatIsEndedSaysWhy) {
  join(1, peer(1));
  const auto outcome = runs_.end("plain-1", "ended by an operator");
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->notes.size(), 1U);
  EXPECT_EQ(outcome->notes[0].what, "run_ended");
  EXPECT_EQ(outcome->notes[0].detail, "ended by an operator");
}

TEST_F(PlainRunsTest, AProcessWithALiveJoinedConnectionStaysInItsRun) {
  join(1, peer(1));
  join(2, peer(2));
  set(1, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(1)), "plain-1");
  EXPECT_EQ(join(4, peer(4)), "plain-2");
  EXPECT_EQ(join(5, peer(1)), "plain-1");              // also when another run is current
  EXPECT_EQ(join(6, peer(1, "10.0.0.2")), "plain-2");  // the same pid on another host
  close(1);
  close(3);
  EXPECT_EQ(close(5), Names{"plain-1"});
  EXPECT_EQ(join(7, peer(1)), "plain-2");
}

TEST_F(PlainRunsTest, AConnectionThatHasNotJoinedKeepsNobodyInItsRun) {
  other(1, peer(1));
  join(2, peer(2));
  set(2, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(1)), "plain-2");
}

TEST_F(PlainRunsTest, APidThatIsNotKnownIsNoProcess) {
  join(1, peer(0));
  join(2, peer(0));
  set(1, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(0)), "plain-2");
  EXPECT_EQ(other(4, peer(0)), "plain-2");
}

TEST_F(PlainRunsTest, OthersFollowTheNewestConnectionOfTheirProcess) {
  EXPECT_EQ(other(1, peer(1)), "plain-1");  // a fresh one, which is current
  EXPECT_EQ(join(2, peer(2)), "plain-1");
  set(2, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(3)), "plain-2");
  EXPECT_EQ(other(4, peer(1)), "plain-1");
  EXPECT_EQ(other(5, peer(5)), "plain-2");
  bind(6, peer(1), {Kind::rendezvous, "rdzv-a"});
  EXPECT_EQ(other(7, peer(1)), "rdzv-a");
  close(6);
  close(7);
  EXPECT_EQ(other(8, peer(1)), "plain-1");
}

// ---- edges -------------------------------------------------------------------------------------

TEST_F(PlainRunsTest, ARunEndsWithItsLastConnectionAndIsNotCurrentAnyMore) {
  join(1, peer(1));
  other(2, peer(2));
  set(1, kRank0);
  EXPECT_EQ(close(1), Names{});
  EXPECT_EQ(close(2), Names{"plain-1"});
  EXPECT_EQ(close(2), Names{});
  EXPECT_EQ(other(3, peer(3)), "plain-2");
  EXPECT_EQ(close(3), Names{"plain-2"});
  EXPECT_EQ(runs_.reports().size(), 0U);
}

TEST_F(PlainRunsTest, AnEndThatIsNotCurrentChangesNothing) {
  join(1, peer(1));
  join(2, peer(2));
  set(1, kRank0);
  close(2);
  EXPECT_EQ(join(3, peer(3)), "plain-2");
  EXPECT_EQ(close(1), Names{"plain-1"});
  EXPECT_EQ(join(4, peer(4)), "plain-2");
}

TEST_F(PlainRunsTest, ASecondStartAtOnceIsARunOfItsOwn) {
  for (std::uint64_t launch = 1; launch <= 100; ++launch) {
    const std::uint64_t base = 4 * launch;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(join(base + rank, peer(base + rank)), "plain-" + std::to_string(launch));
    }
    EXPECT_FALSE(set(base + 1, kRank3).refused);
    close(base);  // one end is enough; the others are zombies that end later
    if (launch > 1) {
      for (std::uint64_t rank = 1; rank < 4; ++rank) close(base - 4 + rank);
    }
  }
}

TEST_F(PlainRunsTest, AJoinLaterOnIsAJoin) {
  other(1, peer(1));
  other(2, peer(2));
  runs_.joined(1);
  runs_.joined(1);
  runs_.joined(99);
  EXPECT_EQ(runs_.reports().front().joined, 1U);
  set(2, kRank0);
  close(1);
  EXPECT_EQ(runs_.reports().front().joined, 0U);
  EXPECT_EQ(join(3, peer(3)), "plain-2");
}

TEST_F(PlainRunsTest, ALateJoinerOfALaunchIsWithIt) {
  join(1, peer(1));
  pass(std::chrono::hours(2));
  EXPECT_EQ(join(2, peer(2)), "plain-1");
}

TEST_F(PlainRunsTest, TwoStoresInAProcessAreInOneRun) {
  EXPECT_EQ(join(1, peer(1)), "plain-1");
  EXPECT_EQ(join(2, peer(2)), "plain-1");
  EXPECT_EQ(join(3, peer(1)), "plain-1");
  set(2, kRank3);
  close(1);  // one of its stores; a newcomer finds an end, the process itself does not
  EXPECT_EQ(join(4, peer(1)), "plain-1");
  EXPECT_EQ(join(5, peer(5)), "plain-2");
}

TEST_F(PlainRunsTest, WorkersThatAreStartedAgainAreALaunch) {
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    const std::string run = "plain-" + std::to_string(attempt);
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(join(10 * attempt + rank, peer(10 * attempt + rank)), run);
    }
    EXPECT_FALSE(set(10 * attempt, kRank0).refused);
    for (std::uint64_t rank = 0; rank < 4; ++rank) close(10 * attempt + rank);
  }
}

TEST_F(PlainRunsTest, AHostThatIsCutOffLooksAlive) {
  join(1, peer(1));
  join(2, peer(2, "10.0.0.2"));
  set(1, kRank0);
  set(2, kRank3);
  pass(std::chrono::hours(1));  // neither FIN nor RST has come
  EXPECT_EQ(join(3, peer(3)), "plain-1");
  EXPECT_TRUE(set(3, kRank3).refused);
  EXPECT_EQ(join(4, peer(4)), "plain-2");
  EXPECT_FALSE(set(4, kRank3).refused);
}

TEST_F(PlainRunsTest, AForkedChildKeepsTheConnectionAndSoTheRun) {
  join(1, peer(1));  // the parent is dead; its child has the socket
  EXPECT_EQ(join(2, peer(2)), "plain-1");
  EXPECT_FALSE(set(1, kRank0).refused);
  EXPECT_TRUE(set(2, kRank0).refused);
}

// ---- a store ----------------------------------------------------------------------------------

TEST_F(PlainRunsTest, ClientsOfAStoreThatComeOneAfterTheOtherAreInOneRun) {
  other(1, peer(1));
  for (std::uint64_t client = 2; client < 5; ++client) {
    EXPECT_EQ(join(client, peer(client)), "plain-1");
    EXPECT_EQ(close(client), Names{});
  }
  EXPECT_FALSE(noted("launch_split"));
}

TEST_F(PlainRunsTest, AStoreThatIsClosedAndOpenedAgainIsTheSame) {
  EXPECT_EQ(join(1, peer(1)), "plain-1");
  EXPECT_FALSE(last_.resumed);
  EXPECT_EQ(close(1), Names{"plain-1"});
  EXPECT_EQ(runs_.resting(), "plain-1");
  EXPECT_TRUE(runs_.reports().empty());
  EXPECT_EQ(join(2, peer(1)), "plain-1");
  EXPECT_TRUE(last_.resumed);
  EXPECT_TRUE(noted("run_resumed"));
  EXPECT_EQ(runs_.resting(), "");
  close(2);
  EXPECT_EQ(other(3, peer(3)), "plain-1") << "without a join, too";
  close(3);
  EXPECT_EQ(bind(4, peer(4), {Kind::rendezvous, "rdzv-a"}), "rdzv-a");
  EXPECT_FALSE(last_.resumed);
  close(4);
  EXPECT_EQ(runs_.resting(), "plain-1") << "a rendezvous changes nothing";
}

TEST_F(PlainRunsTest, AStoreWhoseKeysAreErasedIsNotResumed) {
  join(1, peer(1));
  runs_.retired("plain-1");  // it has a connection
  runs_.retired("");
  EXPECT_EQ(join(2, peer(2)), "plain-1");
  close(1);
  close(2);
  runs_.retired("plain-7");
  EXPECT_EQ(runs_.resting(), "plain-1");
  runs_.retired("plain-1");
  EXPECT_EQ(runs_.resting(), "");
  EXPECT_EQ(join(3, peer(3)), "plain-2");
  EXPECT_FALSE(last_.resumed);
}

TEST_F(PlainRunsTest, ARunThatAnOperatorEndsIsNotResumed) {
  join(1, peer(1));
  close(1);
  EXPECT_FALSE(runs_.end("plain-2", "removed"));
  EXPECT_FALSE(runs_.end("", "removed"));
  EXPECT_TRUE(runs_.end("plain-1", "removed"));
  EXPECT_FALSE(runs_.end("plain-1", "removed"));
  EXPECT_EQ(join(2, peer(2)), "plain-2");
}

TEST_F(PlainRunsTest, ALaunchIsNotResumed) {
  join(1, peer(1));
  set(1, kRank0);
  close(1);
  EXPECT_EQ(runs_.resting(), "");
  EXPECT_EQ(join(2, peer(2)), "plain-2");
}

TEST_F(PlainRunsTest, EndsBeforeTheFirstKeyOfARankDoNotSplitTheLaunchAfterThem) {
  other(1, peer(1));
  join(2, peer(2));
  close(2);  // a client of the store
  EXPECT_EQ(join(3, peer(3)), "plain-1");
  EXPECT_FALSE(set(3, kRank0).refused);
  EXPECT_EQ(join(4, peer(4)), "plain-1") << "a rank that comes late";
  EXPECT_FALSE(set(4, kRank3).refused);
  close(4);
  EXPECT_EQ(join(5, peer(5)), "plain-2");
}

TEST_F(PlainRunsTest, ALaunchThatDiesBeforeAnyKeySharesItsRunUntilAKeyIsRefused) {
  join(1, peer(1));
  join(2, peer(2));
  close(2);
  EXPECT_EQ(join(3, peer(3)), "plain-1");
  EXPECT_FALSE(set(1, kRank0).refused);
  EXPECT_TRUE(set(3, kRank0).refused);
  EXPECT_EQ(join(4, peer(4)), "plain-2");
}

}  // namespace
}  // namespace c10dd::core
