// SPDX-License-Identifier: Apache-2.0
// Why the process groups of a job do not go on: the diagnosis follows from what the ranks report.
// Ranks that are lost, late or have just come back accuse nobody wrongly.
#include "daemon/core/reports/collective_waits.h"

#include <gtest/gtest.h>

#include "tests/unit/core/activity_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class CollectiveWaitsTest : public RanksRun {};

// ---- one group ---------------------------------------------------------------------------------

TEST_F(CollectiveWaitsTest, NameTheRankThatDoesNotComeAfterASecond) {
  issue_all(all_but(2), kDp);
  live(900ms, all_);
  expect_silence();
  live(250ms, all_);
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 0 of group \"dp\" waits for rank 1 on host-2 (pid 102), "
            "which is connected, but has not issued it; 3 ranks wait");
  EXPECT_EQ(diagnosis().process_groups, std::vector<std::uint64_t>{kDp});
  issue(2, kDp);
  finish(all_, kDp);
  live(1s, all_);
  EXPECT_EQ(text(), "running none: ");
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(CollectiveWaitsTest, NameARankThatIsBehindTheOthers) {
  issue_all(all_, kDp);
  live(300ms, all_);
  finish(all_but(3), kDp);  // rank 2 is still in it
  issue_all(all_but(3), kDp);
  live(2s, all_);
  EXPECT_EQ(
      text(),
      "waiting hung: all_reduce 0 of group \"dp\" does not end on rank 2 on host-3 (pid 103), "
      "although 3 other ranks have ended it; 4 ranks wait; check the network and the devices");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{2});
}

TEST_F(CollectiveWaitsTest, NameNoRankThatIsAhead) {
  issue_all(all_, kDp);
  live(300ms, all_);
  finish({1}, kDp);  // as the root of a broadcast does
  for (int i = 0; i < 3; ++i) issue(1, kDp), finish({1}, kDp);
  finish({3, 4}, kDp);
  live(2s, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::hung);
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
  issue_all({3, 4}, kDp);
  live(2s, all_);
  EXPECT_EQ(diagnosis().waiting, 3U) << "those who wait for the next one are behind it";
}

TEST_F(CollectiveWaitsTest, NameALostRankAlthoughItHasIssuedTheCollective) {
  issue_all(all_, kDp);
  live(750ms, all_);
  drop(2);
  live(500ms, all_but(2));
  EXPECT_EQ(
      text(),
      "stuck missing: all_reduce 0 of group \"dp\" waits for rank 1 on host-2 (pid 102), whose "
      "connection has closed; 3 ranks wait");
}

TEST_F(CollectiveWaitsTest, NameASilentRankWithinTwoSeconds) {
  issue_all(all_but(4), kDp);
  live(2s, all_but(4));
  const std::string silent =
      " missing: all_reduce 0 of group \"dp\" waits for rank 3 on host-4 (pid 104), which is "
      "silent; "
      "3 ranks wait";
  EXPECT_EQ(text(), "waiting" + silent) << "it may be a pause";
  live(1s, all_but(4));
  EXPECT_EQ(text(), "stuck" + silent) << "its ttl is over";
}

TEST_F(CollectiveWaitsTest, NameARankWhoseSessionHasEnded) {
  issue_all(all_but(4), kDp);
  live(600ms, all_);
  ask(4, Goodbye{});
  live(1s, all_but(4));
  EXPECT_EQ(
      text(),
      "stuck missing: all_reduce 0 of group \"dp\" waits for rank 3 on host-4 (pid 104), which "
      "has left; 3 ranks wait");
}

TEST_F(CollectiveWaitsTest, NameARankThatHasClosedTheGroup) {
  issue_all(all_but(4), kDp);
  Activity closes;
  closes.closed = {kDp};
  tell(4, closes);
  for (int i = 0; i < 6; ++i) {
    for (const std::uint64_t n : {1, 2, 3}) tell(n);
    pass(250ms, all_);
  }
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 0 of group \"dp\" waits for rank 3 on host-4 (pid 104), "
            "which is connected, but has not issued it; 3 ranks wait");
}

TEST_F(CollectiveWaitsTest, SayWhichRankHasIssuedSomethingElse) {
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"broadcast", "of 8 float32 from rank 0"}, {"all_reduce", "of 9 float32 sum"},
      {"all_reduce", "of 8 float64 sum"},        {"all_reduce", "of 8 float32 max"},
      {"broadcast", "of 8 float32 from rank 1"}, {"barrier", ""}};
  for (const auto& [name, arguments] : calls) {
    const bool named = name == "all_reduce";
    const std::string what = (named ? "all_reduce " : "collective ") +
                             std::to_string(report_of(1).groups.front().collectives.issued) +
                             " of group \"dp\"";
    issue_all(all_but(3), kDp);
    issue(3, kDp, name, arguments);
    live(1250ms, all_);
    const std::string call = arguments.empty() ? name : name + " " + arguments;
    EXPECT_EQ(text(), "stuck mismatch: " + what +
                          " differs between ranks: ranks [0-1,3] on host-1, host-2, host-4 issued "
                          "all_reduce of 8 float32 sum, rank 2 on host-3 (pid 103) issued " +
                          call);
    EXPECT_TRUE(diagnosis().hopeless);
    finish(all_, kDp);
    live(1s, all_);
  }
}

TEST_F(CollectiveWaitsTest, FollowTheStreamOfARankToTheCause) {
  open_group(kTp, "tp", {1, 2});
  issue(1, kTp);
  live(50ms, all_);
  issue_all({1, 3, 4}, kDp);
  issue(2, kDp);
  queue(1, kDp);
  live(1500ms, all_);
  EXPECT_EQ(text(),
            "waiting deadlock: deadlock: rank 0 on host-1 (pid 101) waits in all_reduce 0 of group "
            "\"tp\" for rank 1 on host-2 (pid 102), which waits in all_reduce 0 of group \"dp\" "
            "for rank 0");
  finish({2}, kDp);
  live(1s, all_);
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 0 of group \"tp\" waits for rank 1 on host-2 (pid 102), "
            "which is connected, but has not issued it; 3 ranks wait");
}

TEST_F(CollectiveWaitsTest, SayWhichBackendHasNotBegun) {
  issue_all(all_, kDp);
  queue(3, kDp);
  live(1250ms, all_);
  EXPECT_EQ(text(),
            "waiting queued: all_reduce 0 of group \"dp\" is still queued on rank 2 on host-3 (pid "
            "103), behind other work of its backend; 4 ranks wait");
}

TEST_F(CollectiveWaitsTest, SayThatACollectiveHangsInWhichAllRanksAre) {
  issue_all(all_, kDp);
  live(2s, all_);
  const std::string hung =
      " hung: all_reduce 0 of group \"dp\" does not end, although all its ranks are in it; 4 ranks "
      "wait; check the network and the devices";
  EXPECT_EQ(text(), "waiting" + hung);
  EXPECT_TRUE(diagnosis().ranks.empty());
  live(35s, all_);
  EXPECT_EQ(text(), "stuck" + hung);
  EXPECT_FALSE(diagnosis().hopeless);
}

TEST_F(CollectiveWaitsTest, WaitTenTimesAsLongAsTheOperationUsuallyTakes) {
  issue_all(all_but(2), kDp);
  const auto live_with_usual = [&](Duration time) {
    for (const TimePoint until = now_ + time; now_ < until;) {
      for (const std::uint64_t n : all_) {
        Activity report = report_of(n);
        for (GroupActivity& group : report.groups) {
          for (UnfinishedOperation& one : group.oldest) one.usual = 300ms;
        }
        tell(n, report);
      }
      pass(250ms, all_);
    }
  };
  live_with_usual(2750ms);
  expect_silence();
  live_with_usual(750ms);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::missing);
}

TEST_F(CollectiveWaitsTest, LeaveOutAKeyForWhichAThreadListensWhileItsProcessGoesOn) {
  ask(1, Wait{{"finished"}, 1min});
  for (int second = 0; second < 20; ++second) {
    issue_all(all_, kDp);
    finish(all_, kDp);
    if (second % 5 == 4) {
      for (const std::uint64_t n : all_) tell(n);
    }
    pass(1s, all_);
  }
  expect_silence();
  pass(7s, all_);
  EXPECT_EQ(text(),
            "waiting missing: key \"finished\" is not set; rank 0 on host-1 (pid 101) waits");
}

TEST_F(CollectiveWaitsTest, SayNothingOfAJobThatGoesOn) {
  for (int step = 0; step < 30; ++step) {
    issue_all(all_, kDp);
    live(700ms, all_);
    finish(all_, kDp);
    live(100ms, all_);
  }
  expect_silence();
}

// ---- several groups ----------------------------------------------------------------------------

TEST_F(CollectiveWaitsTest, FollowTheChainOverGroupsToTheCause) {
  open_group(kTp, "tp", {1, 2});
  open_group(kTp + 100, "tp", {3, 4});
  issue(3, kTp + 100);  // rank 3 of the job, which is rank 1 there, does not come
  live(100ms, all_);
  issue_all({1, 2}, kDp);
  live(1500ms, all_);
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 0 of group \"tp\" waits for rank 3 on host-4 (pid 104), "
            "which is connected, but has not issued it; 3 ranks wait");
  EXPECT_EQ(diagnosis().process_groups, std::vector<std::uint64_t>{kTp + 100});
  EXPECT_EQ(tell(1).groups, std::vector<std::uint64_t>{kDp}) << "it waits behind the cause";
  EXPECT_EQ(tell(3).groups, std::vector<std::uint64_t>{kTp + 100});
  EXPECT_TRUE(tell(1).hopeless.empty());
}

TEST_F(CollectiveWaitsTest, NameSubgroupsByTheRanksOfTheJob) {
  open_group(kTp, "tp", {3, 4});
  issue(3, kTp);
  live(1250ms, all_);
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{3});
  EXPECT_EQ(tell(1).state, 0) << "it concerns no group of this rank";
}

// ---- ranks of which nothing is known ------------------------------------------------------------

TEST_F(CollectiveWaitsTest, AccuseNobodyWhoHasJustConnectedAndNotReported) {
  issue_all(all_but(2), kDp);
  live(600ms, all_);
  drop(2);
  reconnect(2, false);
  issue(2, kDp);
  live(750ms, all_but(2));
  expect_silence();
  tell(2);
  finish(all_, kDp);
  live(3s, all_);
  expect_silence();
}

TEST_F(CollectiveWaitsTest, AccuseARankThatConnectsAndDoesNotReport) {
  issue_all(all_but(2), kDp);
  live(600ms, all_);
  drop(2);
  reconnect(2, false);
  const TimePoint until = now_ + 3s;
  while (now_ < until) {
    for (const std::uint64_t n : all_but(2)) tell(n);
    pass(250ms, all_);
  }
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
}

TEST_F(CollectiveWaitsTest, JudgeNoGroupThatSomeRanksHaveNotOpened) {
  for (const std::uint64_t n : {1, 2}) {
    ask(n, opens({opened_group(kPp, static_cast<Rank>(n - 1), 4, "pp")}));
    ask(n, tells({inside(kPp, unfinished(7, 5s))}));
  }
  const auto wait = [&](Duration time) {
    for (const TimePoint until = now_ + time; now_ < until; pass(250ms, all_)) {
      for (const std::uint64_t n : {1, 2}) ask(n, tells({inside(kPp, unfinished(7, 5s))}));
    }
  };
  wait(9500ms);
  expect_silence();
  wait(1500ms);
  EXPECT_EQ(
      text(),
      "waiting missing: all_reduce 7 of group \"pp\" waits for ranks [2-3] on host-3, host-4, "
      "which are connected, but have not issued it; 2 ranks wait");
}

/// Sessions that tell their ranks only in their reports.
class UnrankedSessionsTest : public ActivityRun {
 protected:
  /// Lets two of three ranks wait for the other one, after the daemon has been started again.
  void wait(const std::vector<std::uint64_t>& beating = {1, 2, 3}) {
    for (const std::uint64_t n : {1, 3}) {
      open(n, -1);
      ask(n, opens({opened_group(11, static_cast<Rank>(n - 1), 3)}));
    }
    for (const TimePoint until = now_ + 11s; now_ < until; pass(250ms, beating)) {
      for (const std::uint64_t n : {1, 3}) ask(n, tells({inside(11, unfinished(7, 5s))}));
    }
  }
};

TEST_F(UnrankedSessionsTest, NameTheRankThatNoSessionHas) {
  wait();
  EXPECT_EQ(
      text(),
      "waiting missing: all_reduce 7 of group \"dp\" waits for rank 1, which never connected; "
      "2 ranks wait");
}

TEST_F(UnrankedSessionsTest, CountARankThatASessionMayHave) {
  open(2, -1);
  wait();
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 7 of group \"dp\" waits for 1 more rank; 2 ranks wait");
}

TEST_F(UnrankedSessionsTest, NameTheOnlyOneThatHasGoneSilentBeforeItReported) {
  open(2, -1);
  wait({1, 3});
  EXPECT_EQ(text(),
            "stuck missing: all_reduce 7 of group \"dp\" waits for rank 1 on host-2 (pid 102), "
            "which is silent; 2 ranks wait");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{1});
}

TEST_F(UnrankedSessionsTest, CountARankThatOneOfTwoSilentSessionsMayHave) {
  open(2, -1);
  open(4, -1);
  wait({1, 3});
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 7 of group \"dp\" waits for 1 more rank; 2 ranks wait");
}

TEST_F(UnrankedSessionsTest, NameTheProcessOfARankThatHasOpenedAnotherGroup) {
  open(2, -1);
  ask(2, opens({opened_group(12, 1, 3)}));
  wait();
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 7 of group \"dp\" waits for rank 1 on host-2 (pid 102), "
            "which is connected, but has not issued it; 2 ranks wait");
}

TEST_F(CollectiveWaitsTest, CountRanksWhoseRankInTheJobIsNotKnown) {
  open(5);  // so that the group has not all ranks of the job
  for (const std::uint64_t n : {1, 2}) {
    ask(n, opens({opened_group(kPp, static_cast<Rank>(n - 1), 4, "pp")}));
  }
  for (const TimePoint until = now_ + 11s; now_ < until; pass(250ms, all_)) {
    for (const std::uint64_t n : {1, 2}) ask(n, tells({inside(kPp, unfinished(7, 5s))}));
  }
  EXPECT_EQ(text(),
            "waiting missing: all_reduce 7 of group \"pp\" waits for 2 more ranks; 2 ranks wait");
}

TEST_F(CollectiveWaitsTest, AccuseNobodyIfARankMayBeInTheCollective) {
  issue_all(all_, kDp);
  // Rank 1 was in an operation when it reported for the last time, and goes on.
  ask(2, tells({inside(kDp, unfinished(0, 1ms))}));
  const auto wait = [&](Duration time) {
    for (const TimePoint until = now_ + time; now_ < until; pass(250ms, all_)) {
      for (const std::uint64_t n : all_but(2)) tell(n);
    }
  };
  wait(3s);
  expect_silence();
  wait(4s);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::hung) << "it would have reported that it went on";
}

TEST_F(CollectiveWaitsTest, ForgetTheGroupsOfTheLaunchBefore) {
  issue_all(all_but(2), kDp);
  live(1250ms, all_);
  EXPECT_EQ(state(), "waiting");
  for (const std::uint64_t n : all_) drop(n);
  // The next launch has the same ranks.
  Ids next;
  for (std::uint64_t n = 1; n <= 4; ++n) {
    open(10 + n, static_cast<std::int64_t>(n) - 1);
    next.push_back(10 + n);
  }
  open_group(kTp, "dp", next);
  for (int step = 0; step < 10; ++step) {
    issue_all(next, kTp);
    live(700ms, next);
    finish(next, kTp);
    live(300ms, next);
  }
  EXPECT_EQ(text(), "running none: ");
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(CollectiveWaitsTest, CallALostProcessLostAlthoughAnotherOneHasItsRank) {
  issue_all(all_but(2), kDp);
  live(600ms, all_);
  drop(2);
  open(12, 1);
  live(750ms, all_but(2));
  EXPECT_EQ(
      text(),
      "stuck missing: all_reduce 0 of group \"dp\" waits for rank 1 on host-2 (pid 102), whose "
      "connection has closed; 3 ranks wait");
}

}  // namespace
}  // namespace c10dd::core
