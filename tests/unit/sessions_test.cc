// SPDX-License-Identifier: Apache-2.0
// Sessions and keys at their bounds, which scripts are too short for.
#include "daemon/core/sessions.h"

#include <gtest/gtest.h>

#include "daemon/core/key_space.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

TimePoint at(std::uint64_t ms) {
  return TimePoint(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

Hello hello(std::uint64_t n, std::int64_t rank = -1) {
  Hello h;
  h.session = {3, n};
  h.rank = rank;
  h.host = "host-" + std::to_string(n);
  return h;
}

StoredReply stored(Revision revision) { return {Set::op.code, 5, "body", revision}; }

void open_all(Sessions& sessions) {
  for (std::uint64_t i = 0; i < limits::kSessionsPerJob; ++i) {
    ASSERT_TRUE(sessions.open(hello(i), at(0)));
  }
}

TEST(Sessions, ForgetsTheOneThatIsAwayLongestToMakeRoom) {
  Sessions sessions;
  open_all(sessions);
  EXPECT_EQ(sessions.open(hello(1'000'000), at(1)).error().code, Code::quota_exceeded);
  sessions.disconnect({3, 9}, at(10));
  sessions.disconnect({3, 4}, at(20));
  sessions.disconnect({3, 7}, at(30));
  sessions.keep({3, 9}, *sessions.find({3, 9}), 1, stored(1));
  EXPECT_EQ(sessions.open(hello(1'000'000), at(40)).value(), (SessionId{3, 4}));
  EXPECT_EQ(sessions.find({3, 4}), nullptr);
  EXPECT_EQ(sessions.open(hello(1'000'001), at(41)).value(), (SessionId{3, 7}));
  EXPECT_EQ(sessions.open(hello(1'000'002), at(42)).error().code, Code::quota_exceeded);
  EXPECT_EQ(sessions.connected(), limits::kSessionsPerJob - 1);
}

TEST(Sessions, NeverForgetsOneThatCameBack) {
  Sessions sessions;
  open_all(sessions);
  sessions.disconnect({3, 5}, at(10));
  sessions.find({3, 5})->last_seen = at(20);  // as every request does
  ASSERT_EQ(sessions.open(hello(5), at(20)).value(), std::nullopt);
  EXPECT_EQ(sessions.open(hello(1'000'000), at(30)).error().code, Code::quota_exceeded);
  sessions.disconnect({3, 6}, at(40));
  sessions.close({3, 6});
  EXPECT_EQ(sessions.open(hello(1'000'000), at(50)).value(), std::nullopt);
  EXPECT_EQ(sessions.open(hello(1'000'001), at(60)).error().code, Code::quota_exceeded);
}

TEST(Sessions, KnowsWhoIsWhichRankNow) {
  Sessions sessions;
  ASSERT_TRUE(sessions.open(hello(1, 4), at(0)));
  EXPECT_EQ(sessions.find_rank(4)->host, "host-1");
  ASSERT_TRUE(sessions.open(hello(1, 5), at(0)));
  EXPECT_EQ(sessions.find_rank(4), nullptr);
  EXPECT_EQ(sessions.find_rank(5)->host, "host-1");
  ASSERT_TRUE(sessions.open(hello(2, 5), at(0)));
  EXPECT_EQ(sessions.find_rank(5)->host, "host-2");
  sessions.close({3, 1});
  EXPECT_EQ(sessions.find_rank(5)->host, "host-2");
  sessions.close({3, 2});
  EXPECT_EQ(sessions.find_rank(5), nullptr);
  EXPECT_EQ(sessions.connected(), 0u);
}

TEST(Sessions, ErasesTheRowsOfAcknowledgedReplies) {
  Sessions sessions;
  ASSERT_TRUE(sessions.open(hello(1), at(0)));
  const SessionId id{3, 1};
  Session& session = *sessions.find(id);
  std::vector<Row> rows;
  for (std::uint64_t n = 1; n <= 4; ++n) rows.push_back(sessions.keep(id, session, n, stored(n)));
  sessions.acknowledge(id, session, 3);
  EXPECT_EQ(sessions.garbage(), 2u);
  const std::vector<Row> garbage = sessions.take_garbage();
  EXPECT_EQ(garbage[0].key, rows[0].key);
  EXPECT_EQ(garbage[1].key, rows[1].key);
  sessions.acknowledge(id, session, 2);
  EXPECT_EQ(session.acked_below, 3u);
  EXPECT_EQ(session.replies.size(), 2u);
  sessions.close(id);
  EXPECT_EQ(sessions.garbage(), 2u);
}

TEST(Sessions, TakesUpReplyRowsAndRefusesDamagedOnes) {
  Sessions first;
  ASSERT_TRUE(first.open(hello(1), at(0)));
  const Row row = first.keep({3, 1}, *first.find({3, 1}), 7, stored(9));
  EXPECT_TRUE(Sessions::owns(row));
  Sessions second;
  ASSERT_TRUE(second.restore(row));
  EXPECT_EQ(second.find({3, 1})->replies.at(7).revision, 9u);
  EXPECT_FALSE(second.find({3, 1})->connected);
  EXPECT_FALSE(second.restore({Row::Kind::put, row.key + 'x', row.value}));
  EXPECT_FALSE(second.restore({Row::Kind::put, "r", row.value}));
  EXPECT_FALSE(second.restore({Row::Kind::put, row.key, row.value.substr(0, 3)}));
}

TEST(KeySpace, AccountsForEveryByte) {
  KeySpace keys;
  keys.put("abc", "12345", 1);
  EXPECT_EQ(keys.bytes(), 8u);
  keys.put("abc", "1", 2);
  EXPECT_EQ(keys.bytes(), 4u);
  keys.put("d", "", 3);
  EXPECT_EQ(keys.bytes(), 5u);
  EXPECT_TRUE(keys.erase("abc", 4));
  EXPECT_FALSE(keys.erase("abc", 5));
  EXPECT_EQ(keys.bytes(), 1u);
  EXPECT_EQ(keys.size(), 1u);
}

TEST(KeySpace, RemembersADeletionUntilItIsDurable) {
  KeySpace keys;
  EXPECT_EQ(keys.observed("k"), 0u);
  keys.put("k", "v", 3);
  EXPECT_EQ(keys.observed("k"), 3u);
  keys.erase("k", 5);
  EXPECT_EQ(keys.observed("k"), 5u);
  keys.durable(4);
  EXPECT_EQ(keys.observed("k"), 5u);
  keys.durable(5);
  EXPECT_EQ(keys.observed("k"), 0u);
  keys.erase("k", 6);
  EXPECT_EQ(keys.observed("k"), 0u);
}

TEST(KeySpace, HoldsItsQuotasOverManyPutsOfOneRequest) {
  KeySpace keys;
  const std::size_t room = limits::kBytesPerJob / (limits::kValueBytes + 1);
  KeySpace::Growth growth;
  for (std::size_t i = 0; i < room; ++i) {
    ASSERT_TRUE(keys.check_put(Bytes(1, static_cast<char>(i)), limits::kValueBytes, growth));
  }
  const Result<void> full = keys.check_put("x", limits::kValueBytes, growth);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::quota_exceeded);
  EXPECT_TRUE(full.error().detail.starts_with("job is full: ")) << full.error().detail;

  KeySpace::Growth many{limits::kKeysPerJob - 1, 0};
  EXPECT_TRUE(keys.check_put("a", 1, many));
  EXPECT_EQ(keys.check_put("b", 1, many).error().code, Code::quota_exceeded);
  keys.put("a", "12345", 1);
  KeySpace::Growth shrinking{0, static_cast<std::ptrdiff_t>(limits::kBytesPerJob)};
  EXPECT_FALSE(keys.check_put("a", 9, shrinking));
}

TEST(KeySpace, CutsListsIntoPages) {
  KeySpace keys;
  const Bytes stem(limits::kKeyBytes - 8, 's');
  for (std::uint64_t i = 0; i < 1'100; ++i) keys.put(stem + std::to_string(10'000 + i), "", 1);
  std::set<Bytes> seen;
  Bytes after;
  bool more = true;
  for (int page = 0; more; ++page) {
    ASSERT_LT(page, 10);
    std::size_t bytes = 0;
    for (const Bytes& key : keys.list("s", after, limits::kListPageKeys, more)) {
      EXPECT_TRUE(seen.insert(key).second);
      bytes += key.size();
      after = key;
    }
    EXPECT_LE(bytes, limits::kListPageBytes);
  }
  EXPECT_EQ(seen.size(), 1'100u);
}

}  // namespace
}  // namespace c10dd::core
