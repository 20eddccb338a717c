// SPDX-License-Identifier: Apache-2.0
// What PlainRuns learns from the keys of ranks: who takes the rank of another process. What it
// reports.
#include "tests/unit/core/plain_runs_world.h"

namespace c10dd::core {
namespace {

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
  EXPECT_FALSE(runs_.set_keys(1, {{kRank3}, {"/any/key"}}, false, now_).refused);
  pass(PlainRuns::kYoung);
  const PlainRuns::Outcome out = runs_.set_keys(2, {{kRank0}, {kRank3}, {"/other"}}, false, now_);
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
