// SPDX-License-Identifier: Apache-2.0
// Which process groups a process reports, and when.
#include <algorithm>
#include <vector>

#include "protocol/limits.h"
#include "tests/unit/client/activity_world.h"

namespace c10dd::client {
namespace {

// ---- open and close ----------------------------------------------------------------------------

TEST_F(ActivityTest, AGroupIsReportedAtOnceAfterItWasOpened) {
  EXPECT_TRUE(reports_.empty());
  EXPECT_FALSE(next(true));
  open(7);
  EXPECT_FALSE(reports_.empty());
  const auto report = next_after(1ms);
  EXPECT_EQ(opened(report), Ids{7});
  EXPECT_EQ(reported(report), Ids{7});
  EXPECT_EQ(report->opened[0].name, "dp");
  reply();
  EXPECT_FALSE(next_after(1h)) << "nothing has changed";
}

TEST_F(ActivityTest, AClosedGroupIsReportedIfTheDaemonMayKnowIt) {
  open(7);
  close(7);
  EXPECT_FALSE(next()) << "never reported";
  open_known({8});
  run(8);
  close(8);
  EXPECT_FALSE(reports_.empty());
  const auto report = next();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->closed, Ids{8});
  EXPECT_EQ(reported(report), Ids{8});
  EXPECT_EQ(report->groups[0].collectives.issued, 1u) << "how far it had come";
  EXPECT_TRUE(report->opened.empty());
  reply();
  EXPECT_TRUE(reports_.empty());
  EXPECT_FALSE(next_after(1h));
}

TEST_F(ActivityTest, AGroupThatIsClosedBeforeTheReplyIsReportedAsClosed) {
  open(7);
  ASSERT_TRUE(next());
  close(7);
  fail(Code::unavailable);
  const auto report = next_after(ActivityReports::kRepeat);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->closed, Ids{7}) << "the daemon may have it, although the reply was lost";
  EXPECT_EQ(opened(report), Ids{7}) << "otherwise it would not know which group this is";
}

TEST_F(ActivityTest, AGroupThatIsOpenedAgainIsNew) {
  open_known({7});
  close(7);
  ASSERT_TRUE(next());
  open(7);
  reply();
  const auto report = next();
  EXPECT_EQ(opened(report), Ids{7});
  EXPECT_TRUE(report->closed.empty());
}

TEST_F(ActivityTest, GroupsAboveTheLimitAreNotReported) {
  for (std::uint64_t id = 0; id <= limits::kOpenGroups; ++id) open(id);
  std::size_t count = 0;
  while (const auto report = next_after(ActivityReports::kPeriod)) {
    EXPECT_LE(report->opened.size(), ActivityReports::kOpenedPerReport);
    EXPECT_LE(report->groups.size(), limits::kGroupsPerActivity);
    count += report->opened.size();
    reply();
  }
  EXPECT_EQ(count, limits::kOpenGroups);
  close(limits::kOpenGroups);
  EXPECT_FALSE(next());
}

TEST_F(ActivityTest, ManyNewGroupsAreOpenedBeforeTheyAreReported) {
  for (std::uint64_t id = 0; id < 300; ++id) open(id);
  std::vector<bool> known(300, false);
  std::vector<std::uint64_t> told;
  for (int calls = 0; calls < 5; ++calls) {
    const auto report = next();
    ASSERT_TRUE(report);
    for (const std::uint64_t id : opened(report)) {
      EXPECT_FALSE(known[id]) << id;
      known[id] = true;
    }
    for (const std::uint64_t id : reported(report)) {
      EXPECT_TRUE(known[id]) << id;
      told.push_back(id);
    }
    reply();
  }
  EXPECT_EQ(std::ranges::count(known, true), 300);
  EXPECT_EQ(told.size(), 300u);
  EXPECT_FALSE(next());
}

// ---- when a group is due -----------------------------------------------------------------------

TEST_F(ActivityTest, AnOldOperationIsToldTwiceAndThenEverySecond) {
  open_known({7});
  issue(7);
  EXPECT_FALSE(next_after(499ms));
  const auto first = next_after(1ms);
  EXPECT_EQ(reported(first), Ids{7});
  EXPECT_TRUE(first->opened.empty());
  EXPECT_EQ(first->groups[0].oldest.at(0).age, 500ms);
  reply();
  EXPECT_EQ(reported(next_after(250ms)), Ids{7}) << "the daemon believes what it is told twice";
  reply();
  EXPECT_FALSE(next_after(999ms));
  EXPECT_EQ(reported(next_after(1ms)), Ids{7});
  reply();
  EXPECT_FALSE(next_after(250ms));
  groups_[7].activity.oldest[0].begun = true;
  EXPECT_EQ(reported(next_after(1ms)), Ids{7}) << "a change is told at once";
}

TEST_F(ActivityTest, AnOperationWithAShortTimeoutIsOldAfterAQuarterOfIt) {
  open_known({7});
  groups_[7].timeout = 400ms;
  issue(7);
  EXPECT_FALSE(next_after(99ms));
  EXPECT_EQ(reported(next_after(1ms)), Ids{7});
}

TEST_F(ActivityTest, AnOldOperationThatHasEndedIsToldAtOnce) {
  open_known({7, 8});
  issue(7);
  issue(8);
  now_ += 500ms;
  EXPECT_EQ(reported(next()), (Ids{7, 8}));
  reply();
  finish(7);
  finish(8);
  issue(8);
  EXPECT_EQ(reported(next()), (Ids{7, 8})) << "also if another operation runs";
  reply();
  EXPECT_FALSE(next_after(250ms));
}

TEST_F(ActivityTest, AGroupThatStandsStillIsToldAndOneThatGoesOnOnlyAfterARest) {
  open_known({7, 8});
  for (int i = 0; i < 11; ++i) {
    run(8);
    if (i == 0) run(7);
    const Ids expected = i == 4 ? Ids{7} : Ids{};
    EXPECT_EQ(reported(next_after(250ms)), expected) << i;
    if (!expected.empty()) reply();
  }
  run(8);
  const auto report = next_after(250ms);
  EXPECT_EQ(reported(report), Ids{8}) << "3 s after its last report";
  EXPECT_EQ(report->groups.at(0).collectives.issued, 12u);
}

TEST_F(ActivityTest, GroupsThatGoOnShareAReport) {
  open_known({6, 7, 8});
  for (int i = 1; i <= 80; ++i) {
    for (const std::uint64_t id : {6, 7, 8}) {
      if (i % (static_cast<int>(id) - 4) == 0) run(id);  // every 0.5 to 1 s
    }
    const auto report = next_after(250ms);
    EXPECT_EQ(reported(report), i % 12 == 0 ? (Ids{6, 7, 8}) : Ids{}) << i;
    if (report) reply();
  }
}

TEST_F(ActivityTest, AChangeOfBlockedIsToldWhileAnOperationIsOld) {
  open_known({6, 7});
  blocked_ = true;
  EXPECT_FALSE(next());
  issue(7);
  for (int i = 0; i < 8; ++i) {
    run(6);  // a thread still gets something done
    const auto report = next_after(250ms);
    if (!report) continue;
    EXPECT_FALSE(report->blocked);
    reply();
  }
  for (int i = 0; i < 3; ++i) {
    const auto report = next_after(250ms);
    EXPECT_TRUE(!report || !report->blocked) << i;
    if (report) reply();
  }
  for (int i = 0; i < 2; ++i) {
    const auto blocked = next_after(i == 0 ? 250ms : 1s);
    ASSERT_TRUE(blocked) << "nothing has ended for a second";
    EXPECT_TRUE(blocked->blocked);
    reply();
  }
  EXPECT_FALSE(next());
  blocked_ = false;
  const auto report = next();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->blocked);
}

TEST_F(ActivityTest, AGroupIsToldAsBlockedWhenItsThreadsHaveBeenInTheSameWaitsForASecond) {
  open_known({6, 7});
  run(6);
  pass(5s);
  groups_[6].blocked_in = 1;
  issue(7);  // a thread that does not issue operations of group 6 goes on
  const auto told_blocked = [&](Duration time) {
    Ids ids;
    for (const TimePoint end = now_ + time; now_ < end;) {
      const auto report = next_after(250ms);
      if (!report) continue;
      for (const std::uint64_t id : report->blocked_groups) ids.push_back(id);
      EXPECT_LE(report->blocked_groups.size(), reported(report).size());
      reply();
    }
    return ids;
  };
  EXPECT_EQ(told_blocked(750ms), Ids{});
  groups_[6].blocked_in = 2;  // it has gone on, and waits again
  EXPECT_EQ(told_blocked(1s), Ids{});
  EXPECT_EQ(told_blocked(500ms), Ids{6}) << "once, because it does not change";
  EXPECT_EQ(told_blocked(3s), Ids{});
  groups_[6].blocked_in.reset();
  auto report = next_after(250ms);
  EXPECT_EQ(std::ranges::count(reported(report), 6U), 1) << "it is told that a thread may come";
  EXPECT_EQ(report->blocked_groups, Ids{});
  reply();
  groups_[6].blocked_in = 3;
  finish(7);
  EXPECT_EQ(told_blocked(3s), Ids{}) << "nothing is old any more";
}

TEST_F(ActivityTest, OldGroupsComeFirstTheOldestBeforeTheOthers) {
  open_known({1, 2, 3, 4, 5});
  run(1);
  issue(5);
  now_ += 1ms;
  issue(3);
  next();  // sees the changes
  now_ += 499ms;
  groups_[2].timeout = 4ms;
  issue(2);
  EXPECT_EQ(reported(next_after(1ms)), (Ids{5, 3, 2, 1}));
}

TEST_F(ActivityTest, AReportHas64GroupsAndTheNextOnesHaveTheOthers) {
  Ids ids;
  for (std::uint64_t id = 1; id <= 100; ++id) ids.push_back(id);
  open_known(ids);
  next();
  reply();
  for (const std::uint64_t id : ids) issue(id);
  now_ += 1s;
  const Ids first(ids.begin(), ids.begin() + 64);
  const Ids second(ids.begin() + 64, ids.end());
  const Ids expected[] = {first, first, second, second, {}};
  for (const Ids& some : expected) {
    const auto report = next();
    Ids found = reported(report);
    found.resize(std::min(found.size(), some.size()));  // after `second`, the oldest repeat
    EXPECT_EQ(found, some);
    if (report) reply();
  }
}

TEST_F(ActivityTest, TheLastCollectiveThatHasEndedIsToldOnceWhileAnOperationIsOld) {
  open_known({1, 2});
  run(1);
  run(2);
  next_after(250ms);
  auto report = next_after(1s);  // they stand still
  ASSERT_TRUE(report);
  EXPECT_EQ(report->groups.size(), 2u);
  EXPECT_TRUE(report->ended.empty());
  reply();
  issue(2);
  report = next_after(500ms);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->groups.size(), 2u);
  ASSERT_EQ(report->ended.size(), 2u);
  EXPECT_EQ(report->ended[0].process_group, 2u) << "its operation is old";
  EXPECT_EQ(report->ended[1].process_group, 1u);
  EXPECT_EQ(report->ended[1].sequence, 0u);
  fail(Code::unavailable);
  report = next_after(1s);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->ended.size(), 2u) << "nobody knows whether the daemon has it";
  reply();
  report = next_after(250ms);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->groups.size(), 1u);
  EXPECT_TRUE(report->ended.empty());
  reply();
  run(1);
  report = next_after(250ms);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->ended.size(), 1u);
  EXPECT_EQ(report->ended[0].process_group, 1u);
  EXPECT_EQ(report->ended[0].sequence, 1u);
}

TEST_F(ActivityTest, MarksAreToldOnce) {
  open_known({7});
  groups_[7].activity.hash_marks = {{8, 1}, {16, 2}};
  groups_[7].activity.time_marks = {{16, 1s, 1ms}};
  run(7);
  next();
  const auto first = next_after(1s);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->groups.at(0).hash_marks.size(), 2u);
  EXPECT_EQ(first->groups.at(0).time_marks.size(), 1u);
  fail(Code::timed_out);
  now_ += ActivityReports::kRepeat;
  EXPECT_EQ(next()->groups.at(0).hash_marks.size(), 2u) << "the first report was lost";
  reply();
  groups_[7].activity.hash_marks = {{16, 2}, {24, 3}};
  run(7);
  next();
  const auto second = next_after(1s);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->groups.at(0).hash_marks.size(), 1u);
  EXPECT_EQ(second->groups.at(0).hash_marks[0].sequence, 24u);
  EXPECT_TRUE(second->groups.at(0).time_marks.empty());
}

}  // namespace
}  // namespace c10dd::client
