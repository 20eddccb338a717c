// SPDX-License-Identifier: Apache-2.0
// The file of --mark: what a start reads, and writes that fail and work again later.
#include "daemon/shard/mark_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

core::StateMark mark_at(std::uint64_t count) {
  core::StateMark mark;
  mark.heartbeat_count = count;
  return mark;
}

class MarkFileTest : public testing::Test {
 protected:
  std::string path() const { return directory_.path() + "/mark"; }
  /// Reads the mark as the next start does.
  std::uint64_t read() const {
    const Result<core::StateMark> mark = MarkFile(path()).read();
    return mark ? mark->heartbeat_count : 0;
  }
  /// Writes ever higher marks, from `first` on, until the file has one of them or `end` is reached.
  bool write_until_there(MarkFile& file, std::uint64_t first) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (std::uint64_t count = first; read() < first; ++count) {
      if (std::chrono::steady_clock::now() > end) return false;
      file.write(mark_at(count));
      std::this_thread::yield();
    }
    return true;
  }

  TemporaryDirectory directory_;
};

TEST_F(MarkFileTest, WithoutAPathNothingIsDone) {
  MarkFile none("");
  ASSERT_TRUE(none.read());
  EXPECT_TRUE(none.write_first(mark_at(1)));
  none.write(mark_at(2));
}

TEST_F(MarkFileTest, KeepsTheNewestMarkOverStarts) {
  {
    MarkFile file(path());
    ASSERT_TRUE(file.read());
    EXPECT_FALSE(std::filesystem::exists(path())) << "nothing is written before the first mark";
    ASSERT_TRUE(file.write_first(mark_at(5)));
    EXPECT_TRUE(write_until_there(file, 100));
    EXPECT_TRUE(write_until_there(file, 10'000'000)) << "the second time, too";
  }
  EXPECT_GE(read(), 10'000'000u);
}

TEST_F(MarkFileTest, AStartFailsIfItsMarkCannotBeWritten) {
  MarkFile file(path());
  ASSERT_TRUE(file.read());
  std::filesystem::create_directory(path() + ".new");  // in the way of the draft
  const Result<void> written = file.write_first(mark_at(1));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::invalid_argument);
  EXPECT_NE(written.error().detail.find("--mark: " + path()), std::string::npos);
  EXPECT_NE(written.error().detail.find("give a file that this daemon can write"),
            std::string::npos);
}

TEST_F(MarkFileTest, WritesAgainAfterWritesThatFailed) {
  MarkFile file(path());
  ASSERT_TRUE(file.read());
  ASSERT_TRUE(file.write_first(mark_at(1)));
  std::filesystem::rename(path(), path() + ".away");
  for (std::uint64_t count = 2; count < 40; ++count) {
    file.write(mark_at(count));
    std::this_thread::yield();
  }
  std::filesystem::rename(path() + ".away", path());
  EXPECT_TRUE(write_until_there(file, 1'000'000));
}

TEST_F(MarkFileTest, DamageIsToldAndNotTakenForNoMark) {
  std::ofstream(path()) << "not a mark";
  const Result<core::StateMark> mark = MarkFile(path()).read();
  ASSERT_FALSE(mark);
  EXPECT_EQ(mark.error().code, Code::malformed);
  EXPECT_NE(mark.error().detail.find("--accept-rollback"), std::string::npos);
}

}  // namespace
}  // namespace c10dd::daemon
