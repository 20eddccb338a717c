// SPDX-License-Identifier: Apache-2.0
// Names of jobs to numbers for ever, and the incarnation of the state.
#include "daemon/core/directory.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

TEST(Directory, NamesTheStateOnceAndKeepsTheName) {
  Directory first(0);
  const Effects named = first.resume(77);
  EXPECT_EQ(first.incarnation(), 77u);
  ASSERT_EQ(named.rows.size(), 1u);
  EXPECT_EQ(named.revision, 1u);
  Directory second(named.revision);
  ASSERT_TRUE(second.restore(named.rows[0]));
  EXPECT_TRUE(second.resume(78).rows.empty());
  EXPECT_EQ(second.incarnation(), 77u);
  EXPECT_EQ(second.revision(), 1u);
}

TEST(Directory, NeverNamesTheStateZero) {
  Directory directory(0);
  directory.resume(0);
  EXPECT_NE(directory.incarnation(), 0u);
}

TEST(Directory, GivesAJobItsNumberForEver) {
  Directory first(0);
  Effects one;
  Effects two;
  Effects again;
  EXPECT_EQ(first.open("train", "", one).value(), 1u);
  EXPECT_EQ(first.open("train", "run-2", two).value(), 2u);
  EXPECT_EQ(first.open("train", "", again).value(), 1u);
  EXPECT_EQ(one.rows.size(), 1u);
  EXPECT_TRUE(again.rows.empty());
  EXPECT_EQ(again.revision, two.revision);
  EXPECT_EQ(first.find("train", "run-3"), std::nullopt);

  Directory second(two.revision);
  ASSERT_TRUE(second.restore(two.rows[0]));
  ASSERT_TRUE(second.restore(one.rows[0]));
  EXPECT_EQ(second.find("train", ""), 1u);
  EXPECT_EQ(second.find("train", "run-2"), 2u);
  Effects three;
  EXPECT_EQ(second.open("other", "", three).value(), 3u);
  EXPECT_EQ(three.revision, 3u);
}

TEST(Directory, TellsNamesApartWhateverTheyContain) {
  Directory directory(0);
  Effects a;
  Effects b;
  EXPECT_NE(directory.open("ab", "c", a).value(), directory.open("a", "bc", b).value());
  EXPECT_NE(a.rows[0].key, b.rows[0].key);
}

TEST(Directory, RefusesBadNames) {
  Directory directory(0);
  for (const std::string& bad : {std::string(), std::string(limits::kNameBytes + 1, 'j'),
                                 std::string("a\nb"), std::string("\xFF")}) {
    Effects out;
    const Result<JobNumber> number = directory.open(bad, "", out);
    ASSERT_FALSE(number);
    EXPECT_EQ(number.error().code, Code::invalid_argument);
    EXPECT_TRUE(out.rows.empty());
  }
  Effects out;
  EXPECT_EQ(directory.open("job", "a\x7F", out).error().code, Code::invalid_argument);
  EXPECT_TRUE(directory.open(std::string(limits::kNameBytes, 'j'), "caf\xC3\xA9?", out));
}

TEST(Directory, RefusesDamagedRows) {
  Directory first(0);
  Effects out;
  ASSERT_TRUE(first.open("job", "run", out));
  const Row good = out.rows[0];
  for (std::size_t n = 0; n < good.value.size(); ++n) {
    Row cut = good;
    cut.value.resize(n);
    EXPECT_FALSE(Directory(0).restore(cut)) << n;
  }
  for (std::size_t n = 1; n < 9; ++n) {
    Row cut = good;
    cut.key.resize(n);
    EXPECT_FALSE(Directory(0).restore(cut)) << n;
  }
  EXPECT_FALSE(Directory(0).restore({Row::Kind::put, "x", good.value}));
  EXPECT_FALSE(Directory(0).restore({Row::Kind::put, "", good.value}));
}

TEST(Directory, HoldsItsLimit) {
  Directory directory(0);
  for (std::size_t i = 0; i < limits::kJobs; ++i) {
    Effects out;
    ASSERT_TRUE(directory.open("job" + std::to_string(i), "", out));
  }
  Effects out;
  EXPECT_EQ(directory.open("one more", "", out).error().code, Code::quota_exceeded);
  EXPECT_TRUE(directory.open("job7", "", out));
}

}  // namespace
}  // namespace c10dd::core
