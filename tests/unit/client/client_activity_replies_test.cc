// SPDX-License-Identifier: Apache-2.0
// What the reply to a report of process groups changes, and what a report costs.
#include <algorithm>
#include <set>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/unit/client/activity_world.h"

namespace c10dd::client {
namespace {

// ---- replies -----------------------------------------------------------------------------------

TEST_F(ActivityTest, AReportWithoutAReplyIsRepeated) {
  open(7);
  ASSERT_TRUE(next());
  const auto lost = next();
  EXPECT_EQ(opened(lost), Ids{7});
  EXPECT_EQ(reported(lost), Ids{7});
  fail(Code::timed_out);
  EXPECT_FALSE(next_after(999ms)) << "not in a tight loop";
  const auto again = next_after(1ms);
  EXPECT_EQ(opened(again), Ids{7});
  EXPECT_EQ(reported(again), Ids{7});
  reply();
  EXPECT_FALSE(next());
}

TEST_F(ActivityTest, AfterAReconnectAllIsToldAgain) {
  open_known({7, 8});
  run(7);
  pass(1s);
  EXPECT_FALSE(next());
  close(8);
  const auto report = next(true);
  EXPECT_EQ(opened(report), (Ids{8, 7}));
  EXPECT_EQ(reported(report), (Ids{8, 7}));
  EXPECT_EQ(report->closed, Ids{8}) << "the daemon may have kept the session";
  reply();
  EXPECT_FALSE(next());
}

TEST_F(ActivityTest, AReplyToAReportOfTheLastConnectionCountsNothing) {
  open(7);
  ASSERT_TRUE(next());
  reply();
  run(7);
  next();
  ASSERT_TRUE(next_after(1s));
  const auto report = next(true);
  EXPECT_EQ(opened(report), Ids{7});
  EXPECT_EQ(reported(report), Ids{7});
}

TEST_F(ActivityTest, AnOlderDaemonGetsNoReportsUntilTheNextConnect) {
  open_known({7});
  open(8);
  ASSERT_TRUE(next());
  fail(Code::unknown_op);
  issue(7);
  EXPECT_FALSE(next_after(1h));
  EXPECT_FALSE(reports_.timed_out(7, false));
  const auto report = next(true);
  EXPECT_EQ(opened(report), (Ids{7, 8}));
  EXPECT_EQ(reported(report), (Ids{7, 8}));
  reports_.explained({}, failure(Code::unknown_op, "no"), now_);
  EXPECT_FALSE(next_after(1h)) << "an older daemon may have taken over";
}

TEST_F(ActivityTest, HopelessIsCalledOnce) {
  open_known({7, 8});
  close(8);
  ASSERT_TRUE(next());
  const ActivityDiagnosis found{2, "it is stuck", {}, {7, 8, 9}, {7, 8, 9}};
  reply(found);
  EXPECT_EQ(hopeless_, Ids{7}) << "8 and 9 are not open";
  EXPECT_EQ(sentence_, "it is stuck");
  issue(7);
  now_ += 500ms;
  ASSERT_TRUE(next());
  reply(found);
  EXPECT_EQ(hopeless_, Ids{7});
}

TEST_F(ActivityTest, HopelessMayCloseGroups) {
  int calls = 0;
  for (const std::uint64_t id : {6, 7}) {
    WatchedGroup group;
    group.opened.process_group = id;
    group.read = [] { return ReadGroup{}; };
    group.hopeless = [&](const ActivityDiagnosis&) {
      ++calls;
      reports_.close(6);
      reports_.close(7);
    };
    reports_.open(std::move(group));
  }
  next();
  reply({2, "it is stuck", {}, {6, 7}, {6, 7}});
  EXPECT_EQ(calls, 1) << "the other one is closed";
  const auto report = next();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->closed, (Ids{6, 7}));
}

TEST_F(ActivityTest, ADiagnosisCountsForTwoSeconds) {
  open_known({7, 8});
  EXPECT_EQ(reports_.diagnosis(7, now_), nullptr);
  issue(7);
  now_ += 500ms;
  ASSERT_TRUE(next());
  now_ += 1s;
  reply({1, "rank 3 has not come", {{3, 3}}, {7}, {}});
  const ActivityDiagnosis* found = reports_.diagnosis(7, now_ + 2s);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sentence, "rank 3 has not come");
  EXPECT_EQ(reports_.diagnosis(8, now_), nullptr) << "it does not concern this group";
  EXPECT_EQ(reports_.diagnosis(7, now_ + 2s + 1ns), nullptr);
  EXPECT_TRUE(hopeless_.empty());
  reports_.replied(ReplyBody(ActivityDiagnosis{}), now_);
  EXPECT_EQ(reports_.diagnosis(7, now_), nullptr) << "the daemon says that nobody waits";
}

// ---- a group that the daemon refuses -----------------------------------------------------------

TEST_F(ActivityTest, ARefusedGroupSilencesNoOther) {
  Ids ids;
  for (std::uint64_t id = 1; id <= 100; ++id) ids.push_back(id);
  for (const std::uint64_t id : ids) open(id);
  const std::uint64_t bad = 42;
  std::set<std::uint64_t> known;
  int refused = 0;
  const auto answer = [&](const std::optional<Activity>& report) {
    if (!report) return;
    if (std::ranges::count(opened(report), bad) > 0) {
      ++refused;
      return fail(Code::size_mismatch);
    }
    for (const std::uint64_t id : reported(report)) known.insert(id);
    reply();
  };
  for (const TimePoint end = now_ + 20s; now_ < end;) answer(next_after(250ms));
  EXPECT_EQ(known.size(), 99u);
  EXPECT_LE(refused, 8) << "it is found by halves";
  known.clear();
  issue(7);
  issue(bad);
  const int before = refused;
  for (const TimePoint end = now_ + 60s; now_ < end;) answer(next_after(250ms));
  EXPECT_EQ(refused - before, 2) << "it is tried alone every 30 s";
  EXPECT_EQ(known, std::set<std::uint64_t>{7});
  close(bad);
  answer(next_after(2s));
  EXPECT_EQ(refused - before, 3) << "the daemon may know it";
  close(7);
  EXPECT_EQ(next_after(2s)->closed, Ids{7});
}

TEST_F(ActivityTest, AfterAReconnectARefusedGroupIsToldWithTheOthers) {
  open(7);
  open(8);
  ASSERT_TRUE(next());
  fail(Code::quota_exceeded);
  ASSERT_EQ(opened(next_after(1s)), Ids{7});
  fail(Code::quota_exceeded);
  ASSERT_EQ(opened(next_after(1s)), Ids{8});
  reply();
  EXPECT_FALSE(next_after(1s));
  EXPECT_EQ(opened(next(true)), (Ids{7, 8}));
}

// ---- an operation that has timed out -----------------------------------------------------------

TEST_F(ActivityTest, ATimeoutIsToldWithTheGroupFirstThenTheOldOnes) {
  open_known({6, 7, 8, 9});
  issue(8);
  now_ += 100ms;
  issue(6);
  issue(9);
  now_ += 600ms;
  issue(7);
  finish(9);
  const auto report = reports_.timed_out(7, true);
  EXPECT_EQ(reported(report), (Ids{7, 8, 6}));
  EXPECT_EQ(opened(report), (Ids{7, 8, 6})) << "the daemon may be another one by now";
  EXPECT_TRUE(report->timed_out);
  EXPECT_FALSE(report->blocked) << "that is not certain yet";
  EXPECT_FALSE(reports_.timed_out(5, false)) << "not open";
  const auto usual = next();
  EXPECT_EQ(reported(usual), (Ids{8, 6})) << "as if there were no other report";
  EXPECT_FALSE(usual->timed_out);
}

TEST_F(ActivityTest, ATimeoutOfANewGroupIsToldAndItsEnd) {
  open(7);
  EXPECT_EQ(opened(reports_.timed_out(7, false)), Ids{7});
  close(7);
  EXPECT_EQ(next()->closed, Ids{7});
}

TEST_F(ActivityTest, TheReplyToATimeoutSaysWhyButEndsNothing) {
  open_known({7});
  issue(7);
  now_ += 500ms;
  const auto report = reports_.timed_out(7, false);
  ASSERT_TRUE(report);
  const ActivityDiagnosis found{2, "it is stuck", {}, {7}, {7}};
  reports_.explained(*report, ReplyBody(found), now_);
  ASSERT_NE(reports_.diagnosis(7, now_), nullptr);
  EXPECT_TRUE(hopeless_.empty());
  ASSERT_TRUE(next());
  reply(found);
  EXPECT_EQ(hopeless_, Ids{7});
}

TEST_F(ActivityTest, AReportThatOvertakesATimeoutIsToldAgain) {
  open_known({7, 8});
  issue(7);
  issue(8);
  now_ += 500ms;
  ASSERT_TRUE(next());
  reply();
  const auto late = reports_.timed_out(7, false);
  ASSERT_TRUE(late);
  finish(7);
  close(8);
  auto report = next();
  EXPECT_EQ(reported(report), (Ids{8, 7}));
  EXPECT_EQ(report->closed, Ids{8});
  reply();
  EXPECT_FALSE(next());
  run(7);
  now_ += ActivityReports::kRest;
  EXPECT_EQ(reported(next()), Ids{7});
  reports_.explained(*late, failure(Code::timed_out, "no reply"), now_);
  reply();
  report = next();
  EXPECT_EQ(reported(report), (Ids{8, 7})) << "the daemon may take 7 for unfinished again";
  EXPECT_EQ(opened(report), Ids{8});
  EXPECT_EQ(report->closed, Ids{8}) << "and 8 for open";
  reply();
  EXPECT_FALSE(next());
}

TEST_F(ActivityTest, ATimeoutNamesAtMost64Groups) {
  for (std::uint64_t id = 1; id <= 100; ++id) {
    open(id);
    issue(id);
  }
  now_ += 1s;
  const auto report = reports_.timed_out(100, false);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->groups.size(), limits::kGroupsPerActivity);
  EXPECT_EQ(report->groups[0].process_group, 100u);
  EXPECT_EQ(report->groups[1].process_group, 1u);
}

TEST_F(ActivityTest, AReportOfManyOldGroupsIsSmall) {
  Ids ids;
  for (std::uint64_t id = 1; id <= limits::kGroupsPerActivity; ++id) ids.push_back(id);
  open_known(ids);
  for (const std::uint64_t id : ids) issue(id);
  now_ += 1s;
  const auto report = next();
  ASSERT_TRUE(report);
  ASSERT_EQ(report->groups.size(), ids.size());
  Bytes bytes;
  native::encode_request(bytes, {}, Request(*report));
  EXPECT_LE(bytes.size(), 144 * ids.size());
}

}  // namespace
}  // namespace c10dd::client
