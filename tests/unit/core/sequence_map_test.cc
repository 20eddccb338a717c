// SPDX-License-Identifier: Apache-2.0
// Which values a SequenceMap has, and when it destroys the values that were removed.
#include "daemon/core/sequence_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace c10dd::core {
namespace {

using Map = SequenceMap<std::string>;

std::string all(const Map& map) {
  std::string text;
  for (const auto& [sequence, value] : map) text += std::to_string(sequence) + value + " ";
  return text;
}

TEST(SequenceMap, KeepsTheOrderOfSequencesWhateverTheOrderOfAdding) {
  Map map;
  map.insert_or_assign(5, "e");
  map.insert_or_assign(2, "b");
  map.insert_or_assign(9, "i");
  map.insert_or_assign(7, "g");
  EXPECT_EQ(all(map), "2b 5e 7g 9i ");
  EXPECT_EQ(map.insert_or_assign(7, "G"), "G");
  EXPECT_EQ(all(map), "2b 5e 7G 9i ");
}

TEST(SequenceMap, FindsOnlyWhatItHas) {
  Map map;
  EXPECT_FALSE(map.contains(0));
  for (std::uint64_t n = 2; n <= 8; n += 2) map.insert_or_assign(n, std::to_string(n));
  for (std::uint64_t n = 0; n <= 10; ++n) {
    EXPECT_EQ(map.contains(n), n >= 2 && n <= 8 && n % 2 == 0) << n;
  }
  EXPECT_EQ(map.find(6)->second, "6");
  map.pop_front();
  EXPECT_FALSE(map.contains(2)) << "it was removed";
}

TEST(SequenceMap, AddsNothingToASequenceThatHasAValue) {
  Map map;
  map.insert_or_assign(1, "a");
  std::string other = "b";
  const auto [value, added] = map.try_emplace(1, std::move(other));
  EXPECT_FALSE(added);
  EXPECT_EQ(value, "a");
  EXPECT_EQ(other, "b") << "the caller still has it";
}

TEST(SequenceMap, AddsBelowTheFirstAfterRemovals) {
  Map map;
  for (std::uint64_t n = 1; n <= 5; ++n) map.insert_or_assign(n, "");
  map.pop_front();
  map.pop_front();
  map.insert_or_assign(1, "again");
  EXPECT_EQ(all(map), "1again 3 4 5 ");
  map.erase_if([](const Map::Entry& entry) { return entry.first == 4; });
  EXPECT_EQ(all(map), "1again 3 5 ");
}

TEST(SequenceMap, DestroysMostOfWhatWasRemoved) {
  SequenceMap<std::shared_ptr<int>> map;
  const auto counted = std::make_shared<int>(0);
  for (std::uint64_t n = 0; n < 1000; ++n) map.insert_or_assign(n, std::shared_ptr<int>(counted));
  for (int n = 1; n <= 1000; ++n) {
    map.pop_front();
    const long left = 1000 - n;
    ASSERT_EQ(map.size(), static_cast<std::size_t>(left));
    ASSERT_LE(counted.use_count() - 1, 2 * left) << n;
  }
}

}  // namespace
}  // namespace c10dd::core
