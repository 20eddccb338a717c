// SPDX-License-Identifier: Apache-2.0
// What members and watchers of a group are told in cases that scripts do not cover: many at once,
// and several changes in one tick.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "daemon/core/job/job.h"
#include "protocol/limits.h"
#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;

class StatusCrowd {
 public:
  explicit StatusCrowd(std::uint64_t sessions) : next_(sessions + 1, 1) {
    for (std::uint64_t i = 1; i <= sessions; ++i) {
      Hello hello;
      hello.session = {1, i};
      hello.host = "h" + std::to_string(i / 8);
      apply(i, 0, hello);
    }
  }

  Effects ask(std::uint64_t i, const Request& request) { return apply(i, next_[i]++, request); }
  Effects tick(Duration time) { return job_.tick(now_ += time); }

 private:
  Effects apply(std::uint64_t i, std::uint64_t sequence, const Request& request) {
    const Origin from{{1, i}, i};
    return job_.apply(from, {sequence, sequence, i, 0}, request, now_ += Duration(1));
  }

  TimePoint now_{};
  Job job_{1, {1, 1, 0}, {}};
  std::vector<std::uint64_t> next_;
};

Join join_group(std::uint32_t min, std::uint32_t max) {
  Join join;
  join.group = "g";
  join.policy.min = min;
  join.policy.max = max;
  join.timeout = std::chrono::hours(1);
  return join;
}

GroupStatus news_in(const Effects& effects, std::uint64_t session) {
  for (const OutgoingReply& reply : effects.replies) {
    if (!(reply.to == SessionId{1, session}) || reply.op != WatchGroup::op.code) continue;
    return std::get<GroupStatus>(*reply.result);
  }
  return {};
}

std::size_t bytes_of(const Effects& effects) {
  std::size_t bytes = 0;
  for (const RowView& row : effects.rows) bytes += row.key.size() + row.value.size();
  return bytes;
}

TEST(GroupStatusTest, TellingAllIsLinear) {
  constexpr std::uint32_t kMembers = 16'384;
  StatusCrowd crowd(kMembers);
  for (std::uint64_t i = 1; i <= kMembers; ++i) crowd.ask(i, join_group(kMembers, kMembers));
  const std::clock_t start = std::clock();
  std::size_t told = 0;
  for (std::uint64_t i = 1; i <= kMembers; ++i) {
    const GroupStatus status = news_in(crowd.ask(i, WatchGroup{"g", 0, milliseconds(1)}), i);
    told += status.phase == GroupPhase::formed && status.size == kMembers ? 1 : 0;
  }
  EXPECT_EQ(told, kMembers);
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 3 * test::kSlowdown) << "looking at every member for each of them takes minutes";
}

TEST(GroupStatusTest, ThoseWhoTimeOutTogetherAreToldWhoWasMissing) {
  constexpr std::uint32_t kMembers = 16'384;
  StatusCrowd crowd(kMembers);
  Join join = join_group(kMembers, kMembers);
  join.policy.ttl = limits::kMemberTtlMax;
  for (std::uint64_t i = 1; i <= kMembers; ++i) crowd.ask(i, join);
  crowd.ask(77, Goodbye{});
  join.round = 1;
  join.timeout = std::chrono::seconds(1);
  for (std::uint64_t i = 1; i <= kMembers; ++i) {
    if (i != 77) crowd.ask(i, join);
  }
  const std::clock_t start = std::clock();
  const Effects effects = crowd.tick(std::chrono::seconds(2));
  EXPECT_EQ(effects.replies.size(), kMembers - 1);
  for (const OutgoingReply& reply : effects.replies) {
    ASSERT_FALSE(reply.result);
    ASSERT_EQ(reply.result.error().missing.size(), 1U) << reply.result.error().detail;
    ASSERT_EQ(reply.result.error().missing[0].rank, 76U);
  }
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 3 * test::kSlowdown) << "looking at every member for each of them takes minutes";
}

TEST(GroupStatusTest, ANoticeToAllCostsEachOfThemItsOwnRow) {
  constexpr std::uint32_t kMembers = 16'384;
  StatusCrowd crowd(kMembers);
  for (std::uint64_t i = 1; i <= kMembers; ++i) crowd.ask(i, join_group(kMembers, kMembers));
  Notify notify{"g", Notice::Kind::preempt, {}, "", std::chrono::minutes(5), "maintenance"};
  for (Rank rank = 0; rank < kMembers; ++rank) notify.ranks.push_back(rank);
  const std::clock_t start = std::clock();
  std::size_t bytes = bytes_of(crowd.ask(1, notify));
  for (std::uint64_t i = 1; i <= kMembers; ++i) {
    const Effects effects = crowd.ask(i, Acknowledge{"g", 1});
    ASSERT_TRUE(effects.replies.at(0).result);
    bytes += bytes_of(effects);
  }
  const GroupStatus told = news_in(crowd.ask(1, WatchGroup{"g", 0, milliseconds(1)}), 1);
  ASSERT_EQ(told.notices.size(), 1U);
  EXPECT_EQ(told.notices[0].acknowledged, (std::vector<RankRange>{{0, kMembers - 1}}));
  for (std::uint64_t i = 1; i <= kMembers; ++i) {
    bytes += bytes_of(crowd.ask(i, Leave{"g", 0, Leave::Kind::finish, ""}));
  }
  EXPECT_LT(bytes, 4U * kMembers * 512) << "asked, acknowledged, left, and the group's row with it";
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 3 * test::kSlowdown) << "looking at every member for each of them takes minutes";
}

TEST(GroupStatusTest, AllChangesOfATickAreOneNews) {
  StatusCrowd crowd(5);
  Join join = join_group(2, 4);
  crowd.ask(1, join);
  crowd.ask(2, join);
  crowd.tick(join.policy.last_call + milliseconds(1));  // 1 and 2 are a generation
  crowd.ask(3, join);
  join.timeout = milliseconds(2'600);
  crowd.ask(4, join);
  const GroupStatus before = news_in(crowd.ask(5, WatchGroup{"g", 0, milliseconds(1)}), 5);
  ASSERT_EQ(before.waiting, 2U);
  crowd.tick(milliseconds(1'500));
  for (const std::uint64_t heard : {1, 2, 4}) crowd.ask(heard, Ping{});
  WatchGroup follow{"g", before.number, std::chrono::hours(1)};
  ASSERT_EQ(news_in(crowd.ask(5, follow), 5).number, 0U) << "there is no news yet";
  // In this tick 3 is lost by its silence, and the join of 4 times out.
  const GroupStatus status = news_in(crowd.tick(milliseconds(1'150)), 5);
  EXPECT_GT(status.number, before.number);
  EXPECT_EQ(status.waiting, 0U);
}

}  // namespace
}  // namespace c10dd::core
