// SPDX-License-Identifier: Apache-2.0
// What PlainRuns learns from the keys of ranks: who takes the rank of another process, and who
// tells another world size. What it reports.
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
      "(pid 11), which is still connected, and now by 10.0.0.2 (pid 12); end the processes of "
      "the other job, or lease an endpoint with its own name for each job");
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
  EXPECT_NE(out.reason.find("10.0.0.1"), std::string::npos);
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

TEST_F(PlainRunsTest, NamesTheRanksThatTellDifferentWorldSizes) {
  const auto key = [](int rank) { return "/default_pg/0//cpu//0/" + std::to_string(rank); };
  const auto tell = [&](PlainRuns::Connection connection, const std::string& name, std::size_t n) {
    return runs_.set_keys(connection, {{name, 154 + 8 * n}}, false, now_).notes;
  };
  for (std::uint64_t rank = 0; rank < 7; ++rank) join(rank, peer(rank + 10));
  for (int rank = 0; rank < 5; ++rank) EXPECT_TRUE(tell(rank, key(rank), 8).empty());
  EXPECT_TRUE(tell(5, "/default_pg/1//cpu//0/0", 2).empty()) << "another group";
  EXPECT_EQ(runs_.reports().front().differing, "");
  const auto notes = tell(5, key(5), 6);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].what, "world_sizes_differ");
  EXPECT_EQ(notes[0].run, "plain-1");
  const std::string five =
      "the ranks report different world sizes: 6 by rank 5 on 10.0.0.1 (pid 15); 8 by rank 0 on "
      "10.0.0.1 (pid 10), rank 1 on 10.0.0.1 (pid 11), rank 2 on 10.0.0.1 (pid 12), rank 3 on "
      "10.0.0.1 (pid 13) and 1 more; start all ranks with the same world size";
  EXPECT_EQ(notes[0].detail, five);
  EXPECT_TRUE(tell(6, key(6), 6).empty()) << "the log has it already";
  EXPECT_NE(runs_.reports().front().differing.find("rank 6 on"), std::string::npos);
  close(6);
  EXPECT_EQ(runs_.reports().front().differing, five);
  tell(5, key(5), 8);
  EXPECT_EQ(runs_.reports().front().differing, "");
}

TEST_F(PlainRunsTest, TheFirstRankInOrderMayBeTheOneThatDiffers) {
  join(1, peer(1));
  join(2, peer(2));
  EXPECT_TRUE(runs_.set_key(2, {kRank3, 136 * 3}, false, now_).notes.empty());
  EXPECT_TRUE(runs_.set_key(1, {"/default_pg/0//cpu//0/rank_0", 9}, false, now_).notes.empty());
  EXPECT_EQ(runs_.set_key(1, {kRank0, 136 * 2}, false, now_).notes.size(), 1U);
}

TEST_F(PlainRunsTest, AProcessGroupThatIsOpenedAgainIsNoWarning) {
  for (const std::uint64_t pid : {std::uint64_t{0}, std::uint64_t{7}}) {
    join(10 * pid + 1, peer(pid));
    join(10 * pid + 2, peer(pid == 0 ? 0 : pid + 1));
    set(10 * pid + 1, kRank0);
    close(10 * pid + 2);
    join(10 * pid + 3, peer(pid == 0 ? 0 : pid + 1));
    EXPECT_TRUE(noted("launch_reopened")) << pid;
    EXPECT_FALSE(noted("launch_split")) << pid;
    EXPECT_NE(last_.notes.front().detail.find("10.0.0.1"), std::string::npos);
    close(10 * pid + 1);
    EXPECT_EQ(join(10 * pid + 4, peer(pid)), last_.run);
    EXPECT_EQ(last_.notes.size(), 0U) << "the others follow";
    set(10 * pid + 4, kRank0);
    close(10 * pid + 3);
    join(10 * pid + 5, peer(99, "10.0.0.9"));
    EXPECT_TRUE(noted("launch_split")) << "another process";
    close(10 * pid + 4);
    set(10 * pid + 5, kRank0);
    close(10 * pid + 5);
  }
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
