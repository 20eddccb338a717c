// SPDX-License-Identifier: Apache-2.0
// CollectiveWaits gives up no rank that still works. It reports a hang of one group while another
// group is still unclear.
#include <gtest/gtest.h>

#include "tests/unit/core/activity_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;
using Kind = Diagnosis::Kind;

class DoubtfulWaitsTest : public RanksRun {};

TEST_F(DoubtfulWaitsTest, GiveUpNobodyForAnOperationThatIsOnlyQueued) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kDp);
  queue(1, kDp);  // behind a long kernel
  issue(1, kTp);
  issue_all({2, 3, 4}, kDp);  // rank 1 comes to tp afterwards
  block(all_);
  live(10s, all_);
  EXPECT_EQ(state(), "waiting") << text();
  EXPECT_FALSE(diagnosis().hopeless);
}

TEST_F(DoubtfulWaitsTest, GiveUpNobodyForARootThatIsLate) {
  open_group(kTp, "tp", {2, 3});
  issue(2, kDp, "broadcast", "of 8 float32 from rank 0");  // needs rank 0 only
  issue(3, kTp);
  block({2, 3});
  live(10s, all_);
  EXPECT_FALSE(diagnosis().hopeless) << text();
  EXPECT_EQ(state(), "waiting") << text();
}

TEST_F(DoubtfulWaitsTest, KeepMembersOfTwoGroupsWithEqualRanksApart) {
  const auto join = [this](std::uint64_t n, std::uint64_t group, Rank rank) {
    open(n, -1);
    OpenedGroup opened = opened_group(group, rank, 2, group == 101 ? "trainers" : "actors");
    tell(n, opens({opened}));
  };
  for (const std::uint64_t n : {11, 12}) join(n, 101, static_cast<Rank>(n - 11));
  for (const std::uint64_t n : {13, 14}) join(n, 102, static_cast<Rank>(n - 13));
  const auto waits = [this](std::uint64_t n, std::uint64_t group, Duration age) {
    Activity report = tells({inside(group, unfinished(0, age))});
    report.blocked = true;
    tell(n, report);
  };
  for (int i = 0; i < 40; ++i) {
    waits(11, 101, 250ms * i + 300ms);  // for trainer 1, which computes
    waits(14, 102, 250ms * i + 300ms);  // for actor 0, which does, too
    pass(250ms, {1, 2, 3, 4, 11, 12, 13, 14});
  }
  EXPECT_EQ(diagnosis().kind, Kind::missing) << text();
  EXPECT_FALSE(diagnosis().hopeless);
}

TEST_F(DoubtfulWaitsTest, NameALostRankHoweverLongItsOperationUsuallyTakes) {
  issue_all(all_but(4), kDp);
  const auto live_with_usual = [this](Duration time, const Ids& living) {
    for (const TimePoint until = now_ + time; now_ < until;) {
      for (const std::uint64_t n : {1, 2, 3}) {
        Activity report = report_of(n);
        for (GroupActivity& group : report.groups) {
          for (UnfinishedOperation& one : group.oldest) one.usual = 5min;
        }
        tell(n, report);
      }
      pass(250ms, living);
    }
  };
  live_with_usual(55s, all_);
  expect_silence();
  live_with_usual(6s, all_);
  EXPECT_EQ(diagnosis().kind, Kind::missing) << "a minute is enough";
  issue(4, kDp);
  finish(all_, kDp);
  live(2s, all_);
  issue_all(all_but(4), kDp);
  drop(4);
  live_with_usual(3s, all_but(4));
  EXPECT_EQ(state(), "stuck");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{3});
}

TEST_F(DoubtfulWaitsTest, NameAHangBesideAGroupOfWhichNothingIsCertain) {
  open_group(kTp, "tp", {3, 4});
  issue_all(all_, kDp);
  live(600ms, all_);
  finish({1, 3, 4}, kDp);  // rank 1 hangs in it
  issue(3, kTp);           // and rank 2 waits for rank 3 in tp
  for (int i = 0; i < 20; ++i) {
    issue(1, kDp);  // rank 0 goes on
    finish({1}, kDp);
    live(250ms, all_);
  }
  EXPECT_EQ(text().substr(0, 50), "waiting missing: all_reduce 0 of group \"tp\" waits ");
  issue(4, kTp);
  finish({3, 4}, kTp);
  for (int i = 0; i < 100; ++i) {
    issue(1, kDp);
    finish({1}, kDp);
    live(250ms, all_);
  }
  EXPECT_EQ(diagnosis().kind, Kind::hung) << "it is named after 20 s: " << text();
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
}

TEST_F(DoubtfulWaitsTest, NameARankThatReportsAndTellsNothing) {
  issue_all(all_but(4), kDp);
  for (int i = 0; i < 100; ++i) {
    for (const std::uint64_t n : {1, 2, 3}) tell(n);
    GroupActivity vague = ended(kDp, 1);
    vague.collectives.unfinished = 1;  // of which it does not say what it is
    tell(4, tells({vague}));
    pass(250ms, all_);
  }
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{3}) << text();
}

TEST_F(DoubtfulWaitsTest, NameAKeyForWhichAllWaitAfterTheirLastCollective) {
  for (const std::uint64_t n : all_) ask(n, Wait{{"start"}, 10min});
  issue_all(all_, kDp);
  live(900ms, all_);
  finish(all_, kDp);
  live(1s, all_);
  expect_silence();
  pass(7s, all_);
  EXPECT_EQ(text().substr(0, 44), "waiting missing: key \"start\" is not set; ran") << text();
}

TEST_F(DoubtfulWaitsTest, NameAKeyAlthoughTheProcessesReportTheirTotals) {
  for (const std::uint64_t n : {11, 12}) {  // without process groups
    open(n, static_cast<std::int64_t>(n) - 1);
    ask(n, Wait{{"weights"}, 10min});
  }
  for (int i = 0; i < 20; ++i) {
    for (const std::uint64_t n : {11, 12}) ask(n, Report{});
    pass(500ms, {1, 2, 3, 4, 11, 12});
  }
  EXPECT_EQ(text().substr(0, 46), "waiting missing: key \"weights\" is not set; ran") << text();
}

TEST_F(DoubtfulWaitsTest, CallACircleOfReceivesADeadlock) {
  for (const std::uint64_t n : all_) receive(n, kDp, static_cast<std::int64_t>(n % 4));
  block(all_);
  live(6s, all_);
  EXPECT_EQ(diagnosis().kind, Kind::deadlock) << text();
  EXPECT_EQ(diagnosis().ranks, (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_TRUE(diagnosis().hopeless);
}

TEST_F(DoubtfulWaitsTest, CallNoSenderLateThatGoesOn) {
  open_group(kTp, "tp", {2, 3});
  receive(1, kDp, 1);
  block({1});
  for (int i = 0; i < 20; ++i) {
    issue_all({2, 3}, kTp);
    live(300ms, all_);
    finish({2, 3}, kTp);
    EXPECT_NE(state(), "stuck") << text();
  }
}

TEST_F(DoubtfulWaitsTest, TakeABarrierBesideAQueuedOperationForNoDeadlock) {
  issue_all(all_, kDp);
  queue(1, kDp);
  ask(1, barrier("step", 0, 4));  // by another thread
  live(10s, all_);
  EXPECT_EQ(state(), "waiting") << text();
}

}  // namespace
}  // namespace c10dd::core
