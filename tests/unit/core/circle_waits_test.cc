// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other in a circle: of one thread each, of several threads, on streams,
// and beside a rank that is silent.
#include <gtest/gtest.h>

#include "daemon/core/reports/collective_waits.h"
#include "tests/unit/core/activity_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class CircleWaitsTest : public RanksRun {};

TEST_F(CircleWaitsTest, FindRanksThatComeToTwoGroupsInDifferentOrders) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kTp);
  issue_all({2, 3, 4}, kDp);
  live(1250ms, all_);
  const std::string text_of =
      " deadlock: deadlock: rank 1 on host-2 (pid 102) waits in all_reduce 0 of group \"dp\" for "
      "rank 0 on host-1 (pid 101), which waits in all_reduce 0 of group \"tp\" for rank 1";
  const std::string other =
      " deadlock: deadlock: rank 0 on host-1 (pid 101) waits in all_reduce 0 of group \"tp\" for "
      "rank 1 on host-2 (pid 102), which waits in all_reduce 0 of group \"dp\" for rank 0";
  EXPECT_EQ(text(), "waiting" + text_of) << other;
  EXPECT_TRUE(tell(3).hopeless.empty()) << "another thread may come";
  live(60s, all_);
  EXPECT_EQ(text(), "waiting" + text_of) << "it still may";
  block_group(1, kDp);
  live(2s, all_);
  EXPECT_EQ(text(), "waiting" + text_of) << "a thread of rank 1 may come to tp";
  block_group(2, kTp);
  live(1s, all_);
  EXPECT_EQ(text(), "stuck" + text_of) << "all threads that issue operations of both groups wait";
  EXPECT_FALSE(diagnosis().hopeless);
  block_group(1, kDp, false);
  live(1s, all_);
  EXPECT_EQ(text(), "waiting" + text_of);
  issue(2, kTp);
  finish({1, 2}, kTp);
  issue(1, kDp);
  finish(all_, kDp);
  live(1s, all_);
  EXPECT_EQ(text(), "running none: ");
}

TEST_F(CircleWaitsTest, BelieveForAMomentOnlyThatAllThreadsOfAGroupWait) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kTp);
  issue_all({2, 3, 4}, kDp);
  block_group(1, kDp);
  block_group(2, kTp);
  live(20s, all_);
  EXPECT_EQ(state(), "stuck");
  live(4s, {1, 3, 4});  // rank 1 is silent
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::missing) << text();
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
}

TEST_F(CircleWaitsTest, RefuseToBelieveOfAGroupThatIsNotToldThatItIsBlocked) {
  Activity report = report_of(1);
  report.blocked_groups = {kTp};
  EXPECT_EQ(ask(1, report).replies.front().result.error().code, Code::invalid_argument);
  report.blocked_groups = {kDp, kDp};
  EXPECT_EQ(ask(1, report).replies.front().result.error().code, Code::invalid_argument);
}

TEST_F(CircleWaitsTest, CallBlockedRanksThatWaitForEachOtherHopeless) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kTp);
  issue_all({2, 3, 4}, kDp);
  block(all_);
  live(4900ms, all_);
  EXPECT_EQ(state(), "stuck");
  EXPECT_FALSE(diagnosis().hopeless) << "another thread may come";
  live(1100ms, all_);
  EXPECT_EQ(state(), "stuck");
  EXPECT_TRUE(diagnosis().hopeless);
  EXPECT_EQ(diagnosis().ranks, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(told_.size(), 1U);
  using Groups = std::vector<std::uint64_t>;
  EXPECT_EQ(tell(1).hopeless, (Groups{kDp, kTp}));
  EXPECT_EQ(tell(3).hopeless, Groups{kDp}) << "it is in no circle, but in one of the groups";
  EXPECT_EQ(tell(3).sentence, sentence());
  EXPECT_EQ(tell(3).ranks, (std::vector<RankRange>{{0, 1}}));
  const std::string deadlock = sentence();
  Activity aborted;
  aborted.closed = {kDp, kTp};
  tell(1, aborted);
  live(1s, {2, 3, 4});
  EXPECT_NE(sentence(), deadlock) << "the circle is broken";
  EXPECT_EQ(tell(3).hopeless, Groups{kDp}) << "its reports come later";
  EXPECT_EQ(tell(3).sentence, deadlock);
}

TEST_F(CircleWaitsTest, FindACircleOfABarrierAndAGroup) {
  open_group(kTp, "tp", {2, 3});
  for (const std::uint64_t n : {1, 3, 4}) {
    ask(n, barrier("start", static_cast<Rank>(n - 1), 4));
  }
  live(100ms, all_);
  issue(2, kTp);
  block(all_);
  live(1500ms, all_);
  EXPECT_EQ(
      text(),
      "stuck deadlock: deadlock: rank 2 on host-3 (pid 103) waits in barrier \"start\" "
      "(generation 0, sequence 0) for rank 1 on host-2 (pid 102), which waits in all_reduce 0 "
      "of group \"tp\" for rank 2");
  EXPECT_EQ(diagnosis().process_groups, std::vector<std::uint64_t>{kTp});
  EXPECT_FALSE(diagnosis().hopeless) << "the barrier may time out";
}

TEST_F(CircleWaitsTest, NameASilentRankBeforeACircleAndNoOtherRank) {
  open_group(kTp, "tp", {1, 2});
  open_group(kPp, "pp", {2, 3, 4});
  issue(1, kTp);              // for rank 1, of which another thread
  issue_all({2, 3, 4}, kDp);  // waits for rank 0
  live(1500ms, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::deadlock) << text();
  issue(2, kPp);  // a third thread waits for ranks 2 and 3
  live(2s, all_but(4));
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::missing) << text();
  EXPECT_EQ(state(), "waiting");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{3}) << text();
  live(1s, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::deadlock) << "it was a pause: " << text();
  EXPECT_EQ(state(), "waiting");
}

TEST_F(CircleWaitsTest, FindOrdersThatDifferBetweenTheStreamsOfRanks) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kTp);
  live(50ms, all_);
  issue_all(all_, kDp);
  queue(1, kDp);
  live(50ms, all_);
  issue(2, kTp);
  queue(2, kTp);
  block(all_);
  live(1750ms, all_);
  EXPECT_EQ(text(),
            "waiting deadlock: deadlock: rank 0 on host-1 (pid 101) waits in all_reduce 0 of group "
            "\"tp\" for rank 1 on host-2 (pid 102), which waits in all_reduce 0 of group \"dp\" "
            "for rank 0");
  live(15s, all_);
  EXPECT_EQ(state(), "stuck");
  EXPECT_FALSE(diagnosis().hopeless) << "a long kernel looks the same";
}

}  // namespace
}  // namespace c10dd::core
