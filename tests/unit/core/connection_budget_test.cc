// SPDX-License-Identifier: Apache-2.0
// Which connections continue reading, which wait and which are closed, at each check.
#include "daemon/core/host/connection_budget.h"

#include <gtest/gtest.h>

#include <string>

namespace c10dd::core {
namespace {

using Listed = std::vector<ConnectionBudget::Connection>;
using Decisions = ConnectionBudget::Decisions;

Listed closed(const Decisions& decisions) {
  Listed all;
  for (const auto& closing : decisions.close) all.push_back(closing.connection);
  return all;
}

/// Checks until there is a decision, at most twice kPatience times. Returns the number of checks
/// and the decision.
std::pair<unsigned, Decisions> first_verdict(ConnectionBudget& budget) {
  for (unsigned look = 1; look <= 2 * ConnectionBudget::kPatience; ++look) {
    Decisions decisions = budget.look();
    if (!decisions.close.empty() || !decisions.read_on.empty()) return {look, std::move(decisions)};
  }
  return {};
}

TEST(ConnectionBudget, FrameThatFitsIsCountedUntilItsEnd) {
  ConnectionBudget budget(100);
  EXPECT_TRUE(budget.begin_frame(1, 60));
  EXPECT_TRUE(budget.begin_frame(2, 40));
  EXPECT_EQ(budget.held(), 100u);
  EXPECT_FALSE(budget.scarce());
  budget.end_frame(1);
  EXPECT_EQ(budget.held(), 40u);
  budget.leave(2);
  EXPECT_EQ(budget.held(), 0u);
}

TEST(ConnectionBudget, NobodyIsClosedWhileNobodyWaits) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 100));
  EXPECT_EQ(first_verdict(budget).first, 0u);
}

TEST(ConnectionBudget, FrameWithoutRoomWaitsAndGoesOnWhenAnotherEnds) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 80));
  EXPECT_FALSE(budget.begin_frame(2, 30));
  EXPECT_TRUE(budget.scarce());
  EXPECT_EQ(budget.held(), 80u) << "what waits holds nothing";
  EXPECT_EQ(budget.end_frame(1).read_on, Listed{2});
  EXPECT_EQ(budget.held(), 30u);
  EXPECT_FALSE(budget.scarce());
}

TEST(ConnectionBudget, FrameThatGrowsKeepsItsOldSizeWhileItWaits) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 30));
  EXPECT_TRUE(budget.begin_frame(1, 60));
  EXPECT_EQ(budget.held(), 60u);
  ASSERT_TRUE(budget.begin_frame(2, 30));
  EXPECT_FALSE(budget.begin_frame(1, 80));
  EXPECT_EQ(budget.held(), 90u);
  EXPECT_EQ(budget.end_frame(2).read_on, Listed{1});
  EXPECT_EQ(budget.held(), 80u);
  budget.end_frame(1);
  EXPECT_EQ(budget.held(), 0u);
}

TEST(ConnectionBudget, TwoFramesThatWaitForEachOtherToEndDoNotWaitForEver) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 50));
  ASSERT_TRUE(budget.begin_frame(2, 50));
  EXPECT_FALSE(budget.begin_frame(1, 100));
  EXPECT_FALSE(budget.begin_frame(2, 100));
  const Decisions decisions = first_verdict(budget).second;
  EXPECT_EQ(closed(decisions).size(), 1u);
  EXPECT_EQ(decisions.read_on.size(), 1u);
  EXPECT_EQ(budget.held(), 100u);
}

TEST(ConnectionBudget, WhoHoldsMostIsClosedAndTheNewestThatWaitsGetsTheRoom) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 30));
  ASSERT_TRUE(budget.begin_frame(2, 60));
  ASSERT_FALSE(budget.begin_frame(3, 50));
  ASSERT_FALSE(budget.begin_frame(4, 50));
  const auto [look, decisions] = first_verdict(budget);
  EXPECT_EQ(look, ConnectionBudget::kPatience);
  EXPECT_EQ(decisions.read_on, (Listed{4, 3}));
  EXPECT_EQ(closed(decisions), (Listed{2, 1}));
  const Failure& why = decisions.close.front().reason;
  EXPECT_EQ(why.code, Code::quota_exceeded);
  EXPECT_EQ(why.detail,
            "all connections together hold 90 bytes of unfinished frames and unread replies, limit "
            "100 (see --max-bytes); this one holds 60: send whole frames, read the replies, or try "
            "again later");
}

TEST(ConnectionBudget, SmallestFrameThatWaitsIsReadFirst) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 100));
  ASSERT_FALSE(budget.begin_frame(2, 60));
  ASSERT_FALSE(budget.begin_frame(3, 50));
  ASSERT_FALSE(budget.begin_frame(4, 70));
  EXPECT_EQ(budget.end_frame(1).read_on, Listed{3});
  EXPECT_EQ(budget.end_frame(3).read_on, Listed{2});
}

TEST(ConnectionBudget, WhoHasJustBegunIsNotClosedForOthers) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 50));
  ASSERT_FALSE(budget.begin_frame(2, 60));
  for (unsigned i = 1; i < ConnectionBudget::kPatience; ++i) budget.look();
  ASSERT_TRUE(budget.begin_frame(3, 50)) << "smaller than what waits";
  const Decisions decisions = budget.look();
  EXPECT_EQ(closed(decisions), (Listed{1, 2}));
  EXPECT_EQ(
      decisions.close.back().reason.detail,
      "all connections together hold 50 bytes of unfinished frames and unread replies, limit "
      "100 (see --max-bytes); the frame of 60 bytes on this one does not fit: try again later");
  EXPECT_EQ(budget.held(), 50u);
  EXPECT_FALSE(budget.scarce());
}

TEST(ConnectionBudget, UnreadAnswersKeepOthersWaitingUntilTheirReaderIsClosed) {
  ConnectionBudget budget(100);
  budget.set_replies(1, 150);
  EXPECT_TRUE(budget.scarce());
  EXPECT_FALSE(budget.begin_frame(2, 10));
  const auto [look, decisions] = first_verdict(budget);
  EXPECT_EQ(look, ConnectionBudget::kPatience);
  EXPECT_EQ(closed(decisions), Listed{1});
  EXPECT_EQ(decisions.read_on, Listed{2});
}

TEST(ConnectionBudget, AnswersThatAreReadMakeRoom) {
  ConnectionBudget budget(100);
  budget.set_replies(1, 95);
  ASSERT_FALSE(budget.begin_frame(2, 10));
  EXPECT_TRUE(budget.set_replies(1, 91).read_on.empty());
  EXPECT_EQ(budget.set_replies(1, 0).read_on, Listed{2});
  EXPECT_EQ(budget.held(), 10u);
}

TEST(ConnectionBudget, AnswersAboveTwiceTheLimitCloseWhoHoldsMostAtOnce) {
  ConnectionBudget budget(100);
  budget.set_replies(1, 90);
  budget.set_replies(2, 110);
  const Decisions decisions = budget.set_replies(3, 1);
  EXPECT_EQ(closed(decisions), Listed{2});
  EXPECT_EQ(budget.held(), 91u);
}

TEST(ConnectionBudget, WhoLeavesIsForgotten) {
  ConnectionBudget budget(100);
  ASSERT_TRUE(budget.begin_frame(1, 100));
  ASSERT_FALSE(budget.begin_frame(2, 100));
  ASSERT_FALSE(budget.begin_frame(3, 100));
  budget.leave(3);
  EXPECT_EQ(budget.leave(1).read_on, Listed{2});
  budget.leave(2);
  budget.leave(2);
  EXPECT_EQ(budget.held(), 0u);
  EXPECT_FALSE(budget.scarce());
}

}  // namespace
}  // namespace c10dd::core
