// SPDX-License-Identifier: Apache-2.0
// What is kept of reports of activity, until when, and how much.
#include "daemon/core/reports/collective_activity.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <random>

#include "protocol/limits.h"
#include "tests/unit/core/reporting_sessions.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class CollectiveActivityTest : public ReportingSessions {};

// ---- what is kept ------------------------------------------------------------------------------

TEST_F(CollectiveActivityTest, KeepsTheNewestReportOfEachRank) {
  open_both();
  take(kFirst, tells({inside(7, unfinished(4, 600ms))}));
  take(kSecond, tells({ended(7, 4)}));
  EXPECT_EQ(group().name, "group \"dp\"");
  EXPECT_EQ(rank(0).collective.sequence, 4u);
  EXPECT_EQ(rank(0).collective.since, now_ - 600ms);
  EXPECT_EQ(rank(0).ended(), 4u);
  EXPECT_TRUE(rank(0).collective.old);
  EXPECT_FALSE(rank(1).collective.exists());
  EXPECT_EQ(rank(1).collectives.issued, 4u);
  EXPECT_EQ(rank(1).ended(), 4u);
  now_ += 250ms;
  take(kFirst, tells({ended(7, 5)}));
  EXPECT_FALSE(rank(0).collective.exists());
  EXPECT_EQ(rank(0).reported, now_);
  EXPECT_EQ(group().texts.size(), 0u);
}

TEST_F(CollectiveActivityTest, CountsInHowManyReportsAnOperationWasTold) {
  open_both();
  take(kFirst, tells({inside(7, unfinished(4, 100ms))}));
  EXPECT_EQ(rank(0).collective.told, 1);
  EXPECT_FALSE(rank(0).collective.old);
  const TimePoint since = rank(0).collective.since;
  now_ += 1s;
  take(kFirst, tells({inside(7, unfinished(4, 1105ms))}));
  EXPECT_EQ(rank(0).collective.told, 2);
  EXPECT_TRUE(rank(0).collective.old);
  EXPECT_EQ(rank(0).collective.since, since) << "it does not move with the network";
  for (int i = 0; i < 300; ++i) take(kFirst, tells({inside(7, unfinished(4, 2s))}));
  EXPECT_EQ(rank(0).collective.told, 255);
  take(kFirst, tells({inside(7, unfinished(4, 2s, "broadcast"))}));
  EXPECT_EQ(rank(0).collective.told, 1) << "another operation";
  EXPECT_EQ(group().texts.size(), 1u);
}

TEST_F(CollectiveActivityTest, RanksThatNobodyOpensTakeNextToNoMemory) {
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  constexpr Rank kSize = 131'072;
  take(kFirst, opens({opened_group(7, 0, kSize)}));
  GroupActivity marked = ended(7, 4);
  marked.time_marks = {{.sequence = 4, .clock = 1s, .waited = 1ms}};
  take(kFirst, tells({marked}));
  const std::size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
  EXPECT_LE(taken, kSize + 8192);
  EXPECT_EQ(group().ranks[kSize - 1].state, RankActivity::State::absent);
}

TEST_F(CollectiveActivityTest, MarksOfARankThatIsImpossiblyFarAheadCountNothing) {
  open_both();
  const std::uint64_t far = ~std::uint64_t{0} - 1'000;
  GroupActivity lies = ended(7, far + 900);
  for (std::uint64_t n = 0; n < 20; ++n) lies.hash_marks.push_back({far + n, n});
  take(kFirst, tells({lies}));
  GroupActivity honest = ended(7, 200);
  honest.hash_marks = {{64, 1}, {128, 2}};
  take(kSecond, tells({honest}));
  EXPECT_FALSE(group().marks->deviates());
  lies.hash_marks = {{64, 9}};
  take(kFirst, tells({lies}));
  EXPECT_TRUE(group().marks->deviates()) << "the honest marks are still there";
  honest = ended(7, 3'000'000);
  honest.hash_marks = {{2'999'808, 3}};
  take(kSecond, tells({honest}));
  EXPECT_EQ(group().issued.of_others(1), far + 900);
  EXPECT_EQ(group().issued.of_others(0), 3'000'000U);
}

TEST_F(CollectiveActivityTest, KeepsACollectiveAndAMessage) {
  open_both();
  GroupActivity both = inside(7, unfinished(4, 600ms));
  const GroupActivity message = inside(7, unfinished_message(true, 2, 1s, 1));
  both.messages = message.messages;
  both.oldest.push_back(message.oldest.front());
  take(kFirst, tells({both}));
  EXPECT_EQ(rank(0).message.sequence, 2u);
  EXPECT_EQ(rank(0).message.peer, 1);
  EXPECT_EQ(rank(0).message.kind, UnfinishedOperation::Kind::send);
  EXPECT_EQ(group().old, 2u);
  both.oldest.pop_back();
  both.messages.unfinished = 0;
  take(kFirst, tells({both}));
  EXPECT_EQ(group().old, 1u);
}

TEST_F(CollectiveActivityTest, KeepsTextsOnceThatRanksShare) {
  open_both();
  take(kFirst, tells({inside(7, unfinished(4, 600ms))}));
  take(kSecond, tells({inside(7, unfinished(4, 600ms))}));
  EXPECT_EQ(group().texts.size(), 1u);
  EXPECT_EQ(rank(0).collective.text, rank(1).collective.text);
  take(kSecond, tells({inside(7, unfinished(4, 600ms, "barrier", ""))}));
  EXPECT_EQ(group().texts.size(), 2u);
}

TEST_F(CollectiveActivityTest, SaysWhenToLookAtAnOperation) {
  open_both();
  UnfinishedOperation one = unfinished(4, 600ms);
  EXPECT_EQ(take(kFirst, tells({inside(7, one)})).look_at, now_ + 400ms) << "when it is 1 s old";
  EXPECT_EQ(take(kFirst, tells({inside(7, one)})).look_at, std::nullopt) << "it is known";
  one.usual = 500ms;
  EXPECT_EQ(take(kSecond, tells({inside(7, one)})).look_at, now_ + 4400ms)
      << "after ten times as long as it usually takes";
  one = unfinished(5, 400ms);
  EXPECT_EQ(take(kFirst, tells({inside(7, one)})).look_at, std::nullopt) << "it is young";
}

TEST_F(CollectiveActivityTest, SaysWhenADiagnosisMayHaveChanged) {
  open_both();
  const Activity in = tells({inside(7, unfinished(4, 600ms))});
  EXPECT_FALSE(take(kFirst, in).refresh);
  EXPECT_TRUE(take(kFirst, in).refresh) << "it is confirmed";
  EXPECT_FALSE(take(kFirst, in).refresh);
  Activity blocked = in;
  blocked.blocked = true;
  EXPECT_TRUE(take(kFirst, blocked).refresh);
  EXPECT_FALSE(take(kFirst, blocked).refresh);
  blocked.groups = {ended(7, 5)};
  EXPECT_TRUE(take(kFirst, blocked).refresh) << "the operation has ended";
  blocked.closed = {7};
  blocked.groups.clear();
  EXPECT_TRUE(take(kFirst, blocked).refresh);
}

TEST_F(CollectiveActivityTest, KnowsTheGroupsWithOldOperations) {
  open_both();
  take(kFirst, opens({opened_group(8, 0, 2)}));
  EXPECT_TRUE(activity_.busy().empty());
  take(kFirst, tells({inside(7, unfinished(0, 600ms)), inside(8, unfinished(0, 100ms))}));
  EXPECT_EQ(activity_.busy(), std::set<std::uint64_t>{7});
  take(kFirst, tells({ended(7, 1)}));
  EXPECT_TRUE(activity_.busy().empty());
}

TEST_F(CollectiveActivityTest, IgnoresAnOperationThatHasEndedWhileTheReportWasMade) {
  open_both();
  GroupActivity told = inside(7, unfinished(4, 600ms));
  told.collectives.unfinished = 0;
  take(kFirst, tells({told}));
  EXPECT_FALSE(rank(0).collective.exists());
}

TEST_F(CollectiveActivityTest, LeavesGroupsThatAreNotNamedAsTheyAre) {
  open_both();
  take(kFirst, opens({opened_group(8, 0, 2)}));
  take(kFirst, tells({inside(7, unfinished(4, 600ms))}));
  take(kFirst, tells({inside(8, unfinished(2, 600ms))}));
  EXPECT_EQ(rank(0).collective.sequence, 4u);
  EXPECT_EQ(rank(0, 8).collective.sequence, 2u);
}

// ---- ends --------------------------------------------------------------------------------------

TEST_F(CollectiveActivityTest, ForgetsAGroupThatAllHaveClosed) {
  open_both();
  take(kFirst, tells({inside(7, unfinished(4, 600ms))}));
  Activity closes;
  closes.closed = {7};
  take(kFirst, closes);
  EXPECT_EQ(rank(0).state, RankActivity::State::closed);
  EXPECT_EQ(rank(0).ended(), 4u) << "it has not finished that one";
  EXPECT_TRUE(activity_.busy().empty());
  take(kFirst, closes);  // a repeat
  take(kSecond, closes);
  EXPECT_TRUE(activity_.groups().empty());
  EXPECT_EQ(activity_.find(kFirst), nullptr);
}

TEST_F(CollectiveActivityTest, KeepsARankWhoseSessionHasEndedUntilTheOthersEnd) {
  open_both();
  take(kFirst, tells({inside(7, unfinished(4, 600ms))}));
  end(kFirst, Ending::expired);
  EXPECT_EQ(rank(0).state, RankActivity::State::closed);
  const Reporter& reporter = activity_.reporter(rank(0).reporter);
  EXPECT_TRUE(reporter.ended);
  EXPECT_EQ(reporter.last.host, "host-1");
  EXPECT_EQ(reporter.last.pid, 101u);
  EXPECT_EQ(reporter.last.state, RankFacts::State::gone);
  EXPECT_EQ(reporter.last.doing, "the session expired without a connection");
  end(kSecond, Ending::goodbye);
  EXPECT_TRUE(activity_.groups().empty());
}

TEST_F(CollectiveActivityTest, TakesASessionThatEndsAndIsOpenedAgainForANewOne) {
  open_both();
  end(kFirst, Ending::goodbye);
  connect(kFirst);
  EXPECT_EQ(activity_.find(kFirst), nullptr);
  refuses(tells({ended(7, 1)}), Code::not_found,
          "this session has not opened process group 7; a client reports all that it has open when "
          "it connects");
  take(kFirst, opens({opened_group(7, 0, 2)}));
  EXPECT_EQ(rank(0).state, RankActivity::State::open);
}

TEST_F(CollectiveActivityTest, OpensAGroupAgain) {
  open_both();
  take(kFirst, tells({ended(7, 5)}));
  take(kFirst, opens({opened_group(7, 0, 2)}));  // after a reconnect
  EXPECT_EQ(rank(0).collectives.issued, 5u);
  Activity again = opens({opened_group(7, 0, 2)});
  again.groups = {ended(7, 1)};
  take(kFirst, again);
  EXPECT_EQ(rank(0).collectives.issued, 1u) << "the client has begun again";
  Activity closes;
  closes.closed = {7};
  take(kFirst, closes);
  take(kFirst, opens({opened_group(7, 0, 2)}));
  EXPECT_EQ(rank(0).collectives.issued, 0u);
  EXPECT_EQ(rank(0).state, RankActivity::State::open);
}

TEST_F(CollectiveActivityTest, GivesTheRankOfALostProcessToAnotherOne) {
  open_both();
  take(kSecond, tells({inside(7, unfinished(4, 600ms))}));
  sessions_.disconnect(kSecond, now_);
  take(kThird, opens({opened_group(7, 1, 2)}));
  EXPECT_EQ(activity_.reporter(rank(1).reporter).session, kThird);
  EXPECT_EQ(rank(1).collectives.issued, 0u);
  EXPECT_TRUE(activity_.busy().empty());
  connect(kSecond);
  refuses(kSecond, tells({ended(7, 5)}), Code::not_found,
          "this session has not opened process group 7; a client reports all that it has open when "
          "it connects");
  refuses(kSecond, opens({opened_group(7, 1, 2)}), Code::invalid_argument,
          "rank 1 of group \"dp\" is already host-3 (pid 103), which is connected; one process can "
          "be a rank");
}

// ---- bounds ------------------------------------------------------------------------------------

TEST_F(CollectiveActivityTest, RefusesTooManyGroupsInAReport) {
  Activity what;
  for (std::uint64_t id = 1; id <= limits::kGroupsPerActivity + 1; ++id) {
    what.opened.push_back(opened_group(id, 0, 1));
    what.groups.push_back(ended(id, 1));
  }
  refuses(what, Code::too_large,
          "a report is about 65 process groups, limit 64; send the others in the next report");
  what.groups.pop_back();
  take(kFirst, what);
}

TEST_F(CollectiveActivityTest, RefusesOneGroupTooManyOfASessionAndTakesItWhenAnotherIsClosed) {
  std::vector<OpenedGroup> all;
  for (std::uint64_t id = 1; id <= limits::kOpenGroups; ++id) all.push_back(opened_group(id, 0, 1));
  take(kFirst, opens(all));
  take(kFirst, opens(all));
  const Activity one = opens({opened_group(9'999, 0, 1)});
  refuses(one, Code::quota_exceeded,
          "this session would have 4097 process groups open, limit 4096; close some");
  take(kSecond, opens({opened_group(10'000, 0, 1)}));
  Activity closes;
  closes.closed = {17};
  take(kFirst, closes);
  take(kFirst, one);
}

TEST_F(CollectiveActivityTest, RefusesOneRankTooManyOfAJobAndTakesItWhenAGroupIsClosed) {
  static_assert(limits::kGroupRanksPerJob == 4 * limits::kWorldSize);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    take(kFirst, opens({opened_group(id, 0, limits::kWorldSize)}));
  }
  const Activity one = opens({opened_group(5, 0, 1)});
  refuses(kSecond, one, Code::quota_exceeded,
          "the process groups of this job would have 524289 ranks in all, limit 524288; close some "
          "groups");
  take(kSecond, opens({opened_group(4, 1, limits::kWorldSize)}));
  Activity closes;
  closes.closed = {3};
  take(kFirst, closes);
  take(kSecond, one);
}

TEST_F(CollectiveActivityTest, StaysInOrderWhateverSessionsReport) {
  std::mt19937_64 random(5);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const SessionId ids[] = {kFirst, kSecond, kThird};
  std::size_t taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    const SessionId id = ids[below(3)];
    if (below(50) == 0 && sessions_.find(id) != nullptr) end(id, Ending(below(3)));
    if (below(20) == 0 && sessions_.find(id) != nullptr) sessions_.disconnect(id, now_);
    if (sessions_.find(id) == nullptr || !sessions_.find(id)->connected) connect(id);
    Activity what;
    what.blocked = below(2) == 0;
    for (std::size_t i = below(3); i > 0; --i) {
      const auto size = static_cast<std::uint32_t>(1 + below(3));
      what.opened.push_back(opened_group(1 + below(4), static_cast<Rank>(below(size)), size));
    }
    for (std::size_t i = below(3); i > 0; --i) {
      const std::uint64_t group = 1 + below(4);
      const auto message = unfinished_message(below(2) == 0, below(9), below(4) * 300ms,
                                              static_cast<std::int64_t>(below(4)) - 1);
      const auto collective = unfinished(below(9), below(4) * 300ms, below(2) ? "a" : "b");
      what.groups.push_back(inside(group, below(2) ? message : collective));
      if (below(2) == 0) what.groups.back().hash_marks = {{below(4), below(2)}};
    }
    if (below(3) == 0) what.closed = {1 + below(4)};
    now_ += 100ms;
    taken += report(id, what) ? 1 : 0;
  }
  EXPECT_GT(taken, 2'000u);
  for (const SessionId& id : ids) {
    if (sessions_.find(id) != nullptr) end(id, Ending::goodbye);
  }
  EXPECT_TRUE(activity_.groups().empty());
}

}  // namespace
}  // namespace c10dd::core
