// SPDX-License-Identifier: Apache-2.0
// The keys' accounting, quotas, pages and deletion marks.
#include "daemon/core/keys/key_space.h"

#include <gtest/gtest.h>

#include <set>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

TEST(KeySpace, AccountsForEveryByte) {
  KeySpace keys({});
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

TEST(KeySpace, FindsEachOfManyKeysAndNoneThatWasErased) {
  using Index = KeyIndex<KeySpace::Entries::iterator>;
  constexpr std::size_t kKeys = 3 * Index::kSmall;
  KeySpace keys({});
  const auto name = [](std::size_t i) { return "key/" + std::to_string(i); };
  for (std::size_t i = 0; i < kKeys; ++i) {
    keys.put(name(i), Blob(std::to_string(i)), i + 1);
    if (i + 1 == Index::kSmall || i == Index::kSmall) {
      ASSERT_EQ(keys.find(name(0))->revision, 1U) << i;
      ASSERT_EQ(keys.find(name(i))->revision, i + 1);
    }
  }
  keys.put(name(7), "again", kKeys + 1);
  for (std::size_t i = 0; i < kKeys; i += 2) ASSERT_TRUE(keys.erase(name(i), kKeys + 2));
  for (std::size_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(keys.find(name(i)) != nullptr, i % 2 == 1) << i;
  }
  EXPECT_EQ(keys.find(name(7))->value.view(), "again");
  EXPECT_EQ(keys.size(), kKeys / 2);
  EXPECT_FALSE(keys.audit()) << *keys.audit();
  EXPECT_EQ(keys.erase_prefix("key/", kKeys + 3).size(), kKeys / 2);
  EXPECT_EQ(keys.find(name(7)), nullptr);
  EXPECT_FALSE(keys.audit());
}

TEST(KeySpace, RemembersADeletionUntilItIsDurable) {
  KeySpace keys({});
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
  KeySpace keys({});
  const std::size_t room = limits::kBytesPerJob / (limits::kValueBytes + 1);
  KeySpace::PlannedPuts planned_puts;
  for (std::size_t i = 0; i < room; ++i) {
    ASSERT_TRUE(keys.check_put(Bytes(1, static_cast<char>(i)), limits::kValueBytes, planned_puts));
  }
  const auto full = keys.check_put("x", limits::kValueBytes, planned_puts);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::quota_exceeded);
  EXPECT_TRUE(full.error().detail.starts_with("job is full: ")) << full.error().detail;

  KeySpace::PlannedPuts many{limits::kKeysPerJob - 1, 0};
  EXPECT_TRUE(keys.check_put("a", 1, many));
  EXPECT_EQ(keys.check_put("b", 1, many).error().code, Code::quota_exceeded);
}

TEST(KeySpace, MakesNoRoomForOneKeyByShrinkingAnother) {
  Quotas quotas;
  quotas.bytes = 20;
  KeySpace keys(quotas);
  keys.put("a", Bytes(18, 'x'), 1);
  KeySpace::PlannedPuts planned_puts;
  EXPECT_TRUE(keys.check_put("a", 0, planned_puts));
  EXPECT_TRUE(keys.check_put("a", 0, planned_puts));
  EXPECT_TRUE(keys.check_put("b", 0, planned_puts));
  EXPECT_FALSE(keys.check_put("c", 5, planned_puts));
}

TEST(KeySpace, LetsAFullJobShrink) {
  Quotas quotas;
  quotas.keys = 1;
  quotas.bytes = 4;
  KeySpace full(quotas);
  full.put("a", "123456789", 1);
  EXPECT_TRUE(full.check_put("a", 9));
  EXPECT_TRUE(full.check_put("a", 5));
  EXPECT_FALSE(full.check_put("a", 10));
  EXPECT_FALSE(full.check_put("b", 0));
}

TEST(KeySpace, RemovesWhatHasAPrefix) {
  KeySpace keys({});
  for (const char* key : {"a", "ab", "ab\xFF", "abc", "ac", "b"}) keys.put(key, "v", 1);
  EXPECT_EQ(keys.count("ab"), 3u);
  EXPECT_TRUE(keys.erase_prefix("b\xFF", 2).empty());
  EXPECT_EQ(keys.erase_prefix("ab", 2), (std::vector<Blob>{"ab", "abc", "ab\xFF"}));
  EXPECT_EQ(keys.count("ab"), 0u);
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.bytes(), 7u);
  EXPECT_EQ(keys.erase_prefix("", 3), (std::vector<Blob>{"a", "ac", "b"}));
  EXPECT_EQ(keys.bytes(), 0u);
}

TEST(KeySpace, RemembersARemovedPrefixUntilItIsDurable) {
  KeySpace keys({});
  keys.put("ab", "v", 3);
  keys.erase_prefix("x", 4);
  EXPECT_EQ(keys.observed("x"), 0u) << "nothing was removed";
  keys.erase_prefix("a", 5);
  EXPECT_EQ(keys.observed("ab"), 5u);
  EXPECT_EQ(keys.observed("b"), 0u);
  keys.put("ab", "v", 6);
  EXPECT_EQ(keys.observed("ab"), 6u);
  keys.erase("ab", 7);
  EXPECT_EQ(keys.observed("ab"), 7u);
  keys.durable(4);
  EXPECT_EQ(keys.observed("ac"), 5u);
  keys.durable(5);
  EXPECT_EQ(keys.observed("ac"), 0u);
  EXPECT_EQ(keys.observed("ab"), 7u);
}

TEST(KeySpace, CutsListsIntoPages) {
  KeySpace keys({});
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
