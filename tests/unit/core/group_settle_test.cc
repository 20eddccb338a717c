// SPDX-License-Identifier: Apache-2.0
// Which changes a group returns when it is settled: each change once, and all of them.
#include <gtest/gtest.h>

#include <chrono>

#include "daemon/core/group/groups.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SessionId id(std::uint64_t i) { return {1, i}; }

/// Group "g" of two members: a generation needs both.
class GroupSettleTest : public testing::Test {
 protected:
  void join(std::uint64_t i) {
    Session session;
    session.connected = true;
    ASSERT_TRUE(groups_.join(id(i), session, join_, at_));
  }

  Groups::ChangedGroup settle_one() {
    const std::vector<Groups::ChangedGroup> changes = groups_.settle(at_);
    EXPECT_EQ(changes.size(), 1U);
    return changes.empty() ? Groups::ChangedGroup{} : changes[0];
  }

  void form() {
    join_.group = "g";
    join_.policy.min = join_.policy.max = 2;
    join(1);
    join(2);
    settle_one();
    rows_.clear();
  }

  Join join_;
  Rows rows_;
  ChangeContext at_{1, TimePoint{}, rows_};
  Groups groups_;
};

TEST_F(GroupSettleTest, AGenerationIsHandedOverOnce) {
  join_.group = "g";
  join_.policy.min = join_.policy.max = 2;
  EXPECT_TRUE(groups_.settled());
  join(1);
  EXPECT_FALSE(groups_.settled());
  EXPECT_TRUE(groups_.settle(at_).empty()) << "nobody needs to hear of it";
  EXPECT_TRUE(groups_.settled());
  join(2);
  const Groups::ChangedGroup change = settle_one();
  EXPECT_TRUE(change.formed);
  EXPECT_FALSE(change.ended);
  EXPECT_EQ(change.group, groups_.find("g"));
  const std::size_t rows = rows_.size();
  join(2);  // a late repeat
  EXPECT_TRUE(groups_.settle(at_).empty());
  EXPECT_EQ(rows_.size(), rows) << "nothing has changed";
}

TEST_F(GroupSettleTest, TheGroupsRowIsWrittenOnceForAllChanges) {
  form();
  groups_.leave(id(1), {"g", 0, Leave::Kind::fail, "nan"}, at_);
  groups_.leave(id(2), {"g", 0, Leave::Kind::leave, ""}, at_);
  const Groups::ChangedGroup change = settle_one();
  EXPECT_TRUE(change.ended);
  EXPECT_FALSE(change.formed);
  ASSERT_EQ(rows_.size(), 3U) << "two members and the group";
  EXPECT_EQ(rows_[2].key, group_key('g', "g"));
  EXPECT_TRUE(groups_.settle(at_).empty());
  EXPECT_EQ(rows_.size(), 3U);
  EXPECT_TRUE(groups_.members().empty()) << "members that have ended are not watched any more";
}

TEST_F(GroupSettleTest, AStalledMemberIsHandedOverOnceAndWithoutARowOfItsOwn) {
  form();
  const std::uint64_t generation = groups_.find("g")->facts().generation;
  ASSERT_TRUE(groups_.progress(id(2), {"g", generation, "train", 7, seconds(1)}, at_));
  EXPECT_TRUE(groups_.settle(at_).empty());
  EXPECT_EQ(groups_.find("g")->next_deadline(), at_.now + seconds(1) + milliseconds(250));
  at_.now += seconds(1) + milliseconds(250);
  ASSERT_TRUE(groups_.progress(id(1), {"g", generation, "train", 7, seconds(0)}, at_));
  EXPECT_EQ(settle_one().stalled, std::vector<Rank>{1});
  ASSERT_EQ(rows_.size(), 1U);
  EXPECT_EQ(rows_[0].key, group_key('g', "g"));
  ASSERT_TRUE(groups_.progress(id(2), {"g", generation, "train", 8, seconds(1)}, at_));
  EXPECT_TRUE(settle_one().stalled.empty()) << "it goes on, which members are told";
}

TEST_F(GroupSettleTest, MembersThatStallAtAboutTheSameMomentAreHandedOverTogether) {
  form();
  const std::uint64_t generation = groups_.find("g")->facts().generation;
  // The first one waits for the second one, which hangs and has reported later.
  ASSERT_TRUE(groups_.progress(id(1), {"g", generation, "wait", 7, seconds(1)}, at_));
  at_.now += milliseconds(200);
  ASSERT_TRUE(groups_.progress(id(2), {"g", generation, "train", 7, seconds(1)}, at_));
  EXPECT_TRUE(groups_.settle(at_).empty());
  EXPECT_EQ(groups_.find("g")->next_deadline(), TimePoint{} + seconds(1) + milliseconds(250));
  at_.now = *groups_.find("g")->next_deadline();
  join(3);  // any change: it is a spare
  EXPECT_EQ(settle_one().stalled, (std::vector<Rank>{0, 1}));
}

TEST(DeadlinesTest, AKeyHasOneDeadlineAndIsTakenOnce) {
  Deadlines<int> deadlines;
  EXPECT_FALSE(deadlines.next());
  deadlines.set(1, TimePoint(seconds(5)));
  deadlines.set(2, TimePoint(seconds(3)));
  deadlines.set(1, TimePoint(seconds(4)));
  deadlines.erase(7);
  EXPECT_EQ(deadlines.next(), TimePoint(seconds(3)));
  EXPECT_FALSE(deadlines.take_due(TimePoint(seconds(2))));
  EXPECT_EQ(deadlines.take_due(TimePoint(seconds(9))), 2);
  EXPECT_EQ(deadlines.take_due(TimePoint(seconds(9))), 1);
  EXPECT_FALSE(deadlines.take_due(TimePoint(seconds(9))));
  EXPECT_FALSE(deadlines.next());
}

}  // namespace
}  // namespace c10dd::core
