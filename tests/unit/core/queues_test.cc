// SPDX-License-Identifier: Apache-2.0
// Queues without a job: order, positions, accounting, rows. scripts/queue*.txt test who gets which
// item.
#include "daemon/core/keys/queues.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

/// Takes all items that were not delivered.
std::vector<Bytes> drain(Queues& queues, const Bytes& queue) {
  std::vector<Bytes> values;
  while (const auto item = queues.oldest(queue)) {
    values.push_back(queues.value(queue, *item));
    queues.deliver(queue, *item, 99);
  }
  return values;
}

TEST(Queues, KeepTheOrderOfRevisionsAndOfPushesWithinOne) {
  Queues queues({});
  queues.push("q", "a", 3);
  queues.push("other", "x", 3);
  queues.push("q", "b", 3);
  queues.push("q", "c", 4);
  EXPECT_EQ(queues.length("q"), 3u);
  EXPECT_EQ(queues.length("none"), 0u);
  EXPECT_EQ(queues.oldest("none"), std::nullopt);
  EXPECT_EQ(drain(queues, "q"), (std::vector<Bytes>{"a", "b", "c"}));
  EXPECT_EQ(queues.length("q"), 0u);
}

TEST(Queues, PutAReleasedItemBackInItsPlace) {
  Queues queues({});
  for (const char* value : {"a", "b", "c"}) queues.push("q", value, 1);
  const ItemId a = *queues.oldest("q");
  queues.deliver("q", a, 2);
  const ItemId b = *queues.oldest("q");
  queues.deliver("q", b, 3);
  queues.release("q", b, 4);
  EXPECT_EQ(queues.oldest("q"), b);
  queues.release("q", a, 5);
  EXPECT_EQ(queues.observed(), 5u);
  EXPECT_EQ(drain(queues, "q"), (std::vector<Bytes>{"a", "b", "c"}));
}

TEST(Queues, TellTheNewestChangeThatALookDependsOn) {
  Queues queues({});
  EXPECT_EQ(queues.observed(), 0u);
  queues.push("q", "a", 7);
  EXPECT_EQ(queues.observed(), 7u);
  queues.deliver("q", *queues.oldest("q"), 9);
  EXPECT_EQ(queues.observed(), 9u);
}

TEST(Queues, CountItemsUntilTheyAreErased) {
  Queues queues({});
  queues.push("qq", "abc", 1);
  queues.push("qq", "", 2);
  EXPECT_EQ(queues.items(), 2u);
  EXPECT_EQ(queues.bytes(), 7u);
  const ItemId item = *queues.oldest("qq");
  EXPECT_TRUE(queues.is_free("qq", item));
  queues.deliver("qq", item, 3);
  EXPECT_EQ(queues.items(), 2u);
  EXPECT_FALSE(queues.is_free("qq", item));
  EXPECT_EQ(queues.erase("qq", item).kind, Row::Kind::erase);
  EXPECT_FALSE(queues.is_free("qq", item));
  EXPECT_EQ(queues.items(), 1u);
  EXPECT_EQ(queues.bytes(), 2u);
  EXPECT_EQ(queues.length("qq"), 1u);
}

TEST(Queues, HoldTheirQuotasOverWhatIsNotPushedYet) {
  Quotas quotas;
  quotas.queue_items = 3;
  quotas.queue_bytes = 10;
  Queues queues(quotas);
  queues.push("q", "1", 1);
  EXPECT_TRUE(queues.check_push("q", 1, 1, 2));
  const Result<void> many = queues.check_push("q", 1, 2, 4);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Code::quota_exceeded);
  EXPECT_EQ(many.error().detail, "too many items in the job's queues: 4 with this one, limit 3");
  EXPECT_TRUE(queues.check_push("q", 7, 0, 0));
  const Result<void> full = queues.check_push("q", 8, 0, 0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::quota_exceeded);
  EXPECT_EQ(full.error().detail, "the job's queues are full: 11 bytes with this item, limit 10");
  EXPECT_FALSE(queues.check_push("q", 7, 0, 1));
}

TEST(Queues, ComeBackFromTheirRows) {
  Queues first({});
  std::map<Bytes, Bytes> table;
  const auto keep = [&](const Row& row) {
    table.erase(row.key);
    if (row.kind == Row::Kind::put) table[row.key] = row.value;
  };
  const Bytes odd("a\0q", 3);
  for (const char* value : {"1", "2", "", "4"}) keep(first.push("q", value, 300));
  keep(first.push(odd, "x", 2));
  keep(first.push("q", "5", 70'000));
  const ItemId item = *first.oldest("q");
  first.deliver("q", item, 70'001);
  keep(first.erase("q", item));
  Queues second({});
  for (const auto& [key, value] : table) {
    ASSERT_TRUE(Queues::owns({Row::Kind::put, key, value}));
    ASSERT_TRUE(second.restore({Row::Kind::put, key, value}));
  }
  EXPECT_EQ(second.items(), first.items());
  EXPECT_EQ(second.bytes(), first.bytes());
  second.push("q", "6", 70'002);
  EXPECT_EQ(drain(second, "q"), (std::vector<Bytes>{"2", "", "4", "5", "6"}));
  EXPECT_EQ(drain(second, odd), std::vector<Bytes>{"x"});
}

TEST(Queues, RefuseDamagedRows) {
  const Row good = Queues({}).push("q", "value", 3);
  EXPECT_TRUE(Queues({}).restore(good));
  for (std::size_t n = 1; n < good.key.size(); ++n) {
    EXPECT_FALSE(Queues({}).restore({Row::Kind::put, good.key.substr(0, n), good.value})) << n;
  }
  for (std::size_t n = 1; n < good.value.size(); ++n) {
    EXPECT_FALSE(Queues({}).restore({Row::Kind::put, good.key, good.value.substr(0, n)})) << n;
  }
  EXPECT_FALSE(Queues({}).restore({Row::Kind::put, good.key + 'x', good.value}));
}

}  // namespace
}  // namespace c10dd::core
