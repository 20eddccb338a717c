// SPDX-License-Identifier: Apache-2.0
// Which run a connection is bound to: a test for each row of the table, and for each edge of it.
#include "daemon/core/plain_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/core/rank_keys.h"

namespace c10dd::core {
namespace {

using Kind = PlainRuns::First::Kind;
using Connections = std::vector<PlainRuns::Connection>;
using Names = std::vector<std::string>;

class PlainRunsTest : public testing::Test {
 protected:
  static PlainRuns::Peer peer(std::uint64_t pid, const std::string& address = "10.0.0.1") {
    return {address, pid};
  }
  std::string join(PlainRuns::Connection connection, const PlainRuns::Peer& peer) {
    return bind(connection, peer, {Kind::join, {}});
  }
  std::string other(PlainRuns::Connection connection, const PlainRuns::Peer& peer) {
    return bind(connection, peer, {});
  }
  std::string bind(PlainRuns::Connection connection, const PlainRuns::Peer& peer,
                   const PlainRuns::First& first) {
    last_ = runs_.bind(connection, peer, first, now_);
    EXPECT_EQ(runs_.run_of(connection), last_.run);
    return last_.run;
  }
  Names close(PlainRuns::Connection connection) { return runs_.closed(connection).ended; }
  PlainRuns::Outcome set(PlainRuns::Connection connection, const std::string& key,
                         bool blocked = false) {
    return runs_.set_key(connection, key, blocked, now_);
  }
  bool noted(std::string_view what) const {
    return std::ranges::any_of(last_.notes,
                               [&](const PlainRuns::Note& note) { return note.what == what; });
  }
  void pass(Duration time) { now_ += time; }

  PlainRuns runs_;
  PlainRuns::Outcome last_;
  TimePoint now_;
};

constexpr const char* kRank0 = "/default_pg/0//cpu//0/0";
constexpr const char* kRank3 = "/default_pg/0//cpu//0/3";

TEST(RankKeys, AreThoseOfGlooNcclAndTheAgents) {
  EXPECT_EQ(rank_of_key("/default_pg/0//cpu//0/3"), 3U);
  EXPECT_EQ(rank_of_key("/default_pg//0/12"), 12U);
  EXPECT_EQ(rank_of_key("/default_pg//rank_7"), 7U);
  EXPECT_EQ(rank_of_key("/default_pg/0//cuda//4"), 0U);
  EXPECT_EQ(rank_of_key("/torch.rendezvous.id.0/torchelastic/role_info/2"), 2U);
  EXPECT_EQ(rank_of_key("/none/torchelastic/role_info2"), 2U);
  EXPECT_EQ(rank_of_key("//0/1"), 1U);
  EXPECT_EQ(rank_of_key("//worker/attempt_0/default_pg/0/0/2"), 2U);
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
  close(2);
  EXPECT_EQ(join(3, peer(3)), "plain-2");
  EXPECT_TRUE(noted("run_began"));
  ASSERT_TRUE(noted("launch_split"));
  EXPECT_NE(last_.notes.front().detail.find("run plain-1 has ended and 1 are connected"),
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
  close(2);
  EXPECT_EQ(join(3, peer(1)), "plain-2");
}

TEST_F(PlainRunsTest, APidThatIsNotKnownIsNoProcess) {
  join(1, peer(0));
  join(2, peer(0));
  close(2);
  EXPECT_EQ(join(3, peer(0)), "plain-2");
  EXPECT_EQ(other(4, peer(0)), "plain-2");
}

TEST_F(PlainRunsTest, OthersFollowTheNewestConnectionOfTheirProcess) {
  EXPECT_EQ(other(1, peer(1)), "plain-1");  // a fresh one, which is current
  EXPECT_EQ(join(2, peer(2)), "plain-1");
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

// ---- the keys of ranks -------------------------------------------------------------------------

TEST_F(PlainRunsTest, AKeyOfARankIsSetByOneProcess) {
  join(1, peer(11));
  join(2, peer(12, "10.0.0.2"));
  join(3, peer(13));
  EXPECT_FALSE(set(1, kRank3).refused);
  EXPECT_FALSE(set(1, kRank3).refused);
  EXPECT_FALSE(set(2, kRank0).refused);
  EXPECT_FALSE(set(2, "/any/key").refused);
  EXPECT_FALSE(set(3, "/any/key").refused);
  pass(PlainRuns::kYoung);
  const PlainRuns::Outcome out = set(2, kRank3);
  EXPECT_TRUE(out.refused);
  EXPECT_EQ(out.close, Connections{2});
  EXPECT_EQ(out.ended, Names{});
  EXPECT_EQ(
      out.reason,
      "rank 3 is taken: key \"/default_pg/0//cpu//0/3\" of run plain-1 was set by 10.0.0.1 "
      "(pid 11), which is connected, and is now set by 10.0.0.2 (pid 12); end the processes of "
      "the other job, or lease an endpoint for each job, under a name of its own");
  EXPECT_EQ(out.notes.front().what, "rank_taken");
  EXPECT_EQ(runs_.reports().front().refused, out.reason);
  EXPECT_EQ(runs_.run_of(2), "");
  EXPECT_EQ(close(2), Names{});
  EXPECT_EQ(join(4, peer(14)), "plain-2");  // the newcomer had joined: the next launch finds an end
}

TEST_F(PlainRunsTest, ARequestThatSetsARankThatIsTakenSetsNone) {
  join(1, peer(1));
  join(2, peer(2));
  EXPECT_FALSE(runs_.set_keys(1, {kRank3, "/any/key"}, false, now_).refused);
  pass(PlainRuns::kYoung);
  const PlainRuns::Outcome out = runs_.set_keys(2, {kRank0, kRank3, "/other"}, false, now_);
  EXPECT_TRUE(out.refused);
  EXPECT_EQ(out.close, Connections{2});
  join(3, peer(3));
  EXPECT_FALSE(set(1, kRank0).refused) << "the connection that was closed holds it no more";
}

TEST_F(PlainRunsTest, AYoungRunEndsWithARankThatIsTaken) {
  join(1, peer(1));
  join(2, peer(2));
  other(3, peer(3));
  set(1, kRank0);
  pass(PlainRuns::kYoung - Duration(1));
  const PlainRuns::Outcome out = set(2, kRank0);
  EXPECT_EQ(out.close, (Connections{1, 2, 3}));
  EXPECT_EQ(out.ended, Names{"plain-1"});
  EXPECT_EQ(join(4, peer(4)), "plain-2");
  EXPECT_FALSE(set(4, kRank0).refused);
}

TEST_F(PlainRunsTest, ARunInWhichSomebodyWaitsEndsAtAnyAge) {
  join(1, peer(1));
  join(2, peer(2));
  set(1, kRank0);
  pass(std::chrono::hours(1));
  EXPECT_EQ(set(2, kRank0, true).close, (Connections{1, 2}));
}

TEST_F(PlainRunsTest, TheKeyOfARankThatHasEndedIsFree) {
  join(1, peer(1));
  join(2, peer(2));
  set(1, kRank0);
  close(1);
  EXPECT_FALSE(set(2, kRank0).refused);
  other(3, peer(3));
  EXPECT_TRUE(set(3, kRank0).refused);
}

TEST_F(PlainRunsTest, ConnectionsOfOneProcessShareItsKeys) {
  join(1, peer(1));
  other(2, peer(1));
  join(3, peer(3));
  set(1, kRank0);
  EXPECT_FALSE(set(2, kRank0).refused);
  close(2);  // the first connection does not hold the key any more
  EXPECT_FALSE(set(1, kRank0).refused);
  close(1);
  EXPECT_FALSE(set(3, kRank0).refused);
}

TEST_F(PlainRunsTest, WithoutAPidEachConnectionIsAProcess) {
  join(1, peer(0));
  join(2, peer(0));
  EXPECT_FALSE(set(1, kRank0).refused);
  EXPECT_FALSE(set(1, kRank0).refused);
  const PlainRuns::Outcome out = set(2, kRank0);
  EXPECT_TRUE(out.refused);
  EXPECT_NE(out.reason.find("10.0.0.1 (pid not known)"), std::string::npos);
}

TEST_F(PlainRunsTest, KeysOfOtherRunsAreOthers) {
  join(1, peer(1));
  set(1, kRank0);
  join(2, peer(2));
  close(2);
  join(3, peer(3));
  EXPECT_FALSE(set(3, kRank0).refused);
  EXPECT_FALSE(set(99, kRank0).refused);  // not bound
  EXPECT_FALSE(set(3, std::string(PlainRuns::kRankKeyBytes, 'x') + "//0/1").refused);
}

TEST_F(PlainRunsTest, ReportsWhoIsThere) {
  join(1, peer(1));
  join(2, peer(2, "10.0.0.2"));
  other(3, peer(2, "10.0.0.2"));
  set(2, kRank3);
  set(1, kRank0);
  const std::vector<PlainRuns::Report> reports = runs_.reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].run, "plain-1");
  EXPECT_EQ(reports[0].connections, 3U);
  EXPECT_EQ(reports[0].joined, 2U);
  ASSERT_EQ(reports[0].ranks.size(), 2U);
  EXPECT_EQ(reports[0].ranks[0].rank, 0U);
  EXPECT_EQ(reports[0].ranks[1].rank, 3U);
  EXPECT_EQ(reports[0].ranks[1].key, kRank3);
  EXPECT_EQ(reports[0].ranks[1].peer.address, "10.0.0.2");
}

TEST_F(PlainRunsTest, AnOperatorEndsARun) {
  join(1, peer(1));
  other(2, peer(2));
  EXPECT_FALSE(runs_.end("plain-2", "removed"));
  const auto out = runs_.end("plain-1", "removed");
  ASSERT_TRUE(out);
  EXPECT_EQ(out->close, (Connections{1, 2}));
  EXPECT_EQ(out->reason, "removed");
  EXPECT_EQ(out->ended, Names{"plain-1"});
  EXPECT_EQ(join(3, peer(3)), "plain-2");
}

}  // namespace
}  // namespace c10dd::core
