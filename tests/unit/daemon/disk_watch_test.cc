// SPDX-License-Identifier: Apache-2.0
// The watch of the state's disk. The limits are set around the space that the disk has free, so
// that each case holds on every disk.
#include "daemon/shard/disk_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "daemon/core/host/growth_gate.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

constexpr std::uint64_t kMiBOfDisk = std::uint64_t{1} << 20;
constexpr std::uint64_t kMoreThanAnyDisk = std::uint64_t{1} << 62;

class DiskWatchTest : public testing::Test {
 protected:
  DiskWatchTest() {
    options_.engine = "rocksdb:" + home_.path();
    options_.disk_ballast = kMiBOfDisk;
    options_.disk_reserve = kMiBOfDisk;
    options_.disk_minimum = kMiBOfDisk;
  }

  /// Starts a watch, which measures once.
  void start() {
    watch_.emplace(loop_, options_, gate_, metrics_,
                   DiskWatch::Engine{[this](std::function<void(bool)> then) {
                                       ++relieved_;
                                       then(had_room_);
                                     },
                                     [] { return std::uint64_t{0}; }});
    watch_->start();
  }
  bool ballast() const { return std::filesystem::exists(home_.path() + "/ballast"); }

  TemporaryDirectory home_;
  Options options_;
  boost::asio::io_context loop_;
  core::GrowthGate gate_{kMoreThanAnyDisk};
  Metrics metrics_{{"0", "rocksdb", "fsync"}};
  bool had_room_ = true;
  int relieved_ = 0;
  std::optional<DiskWatch> watch_;
};

TEST_F(DiskWatchTest, KeepsABallastFileWhileThereIsRoom) {
  start();
  EXPECT_EQ(gate_.room(), core::DiskRoom::enough);
  ASSERT_TRUE(ballast());
  EXPECT_EQ(std::filesystem::file_size(home_.path() + "/ballast"), kMiBOfDisk);
  EXPECT_EQ(relieved_, 0);
  watch_->engine_failed();
  EXPECT_TRUE(ballast()) << "the disk is not the cause";
}

TEST_F(DiskWatchTest, AsksTheEngineToFreeSpaceBelowTheReserve) {
  start();
  options_.disk_reserve = kMoreThanAnyDisk;
  start();
  EXPECT_EQ(gate_.room(), core::DiskRoom::little);
  EXPECT_EQ(relieved_, 1);
  EXPECT_TRUE(ballast()) << "the engine has room to free space";
}

TEST_F(DiskWatchTest, GivesTheBallastUpIfTheEngineHasNoRoomToFreeSpace) {
  start();
  options_.disk_reserve = kMoreThanAnyDisk;
  had_room_ = false;
  start();
  EXPECT_FALSE(ballast());
}

TEST_F(DiskWatchTest, GivesTheBallastUpIfTheEngineFailsBelowTheMinimum) {
  start();
  options_.disk_reserve = options_.disk_minimum = kMoreThanAnyDisk;
  start();
  EXPECT_EQ(gate_.room(), core::DiskRoom::none);
  ASSERT_TRUE(ballast());
  watch_->engine_failed();
  EXPECT_FALSE(ballast());
}

TEST_F(DiskWatchTest, MeasuresAgainAndAgain) {
  options_.disk_reserve = kMoreThanAnyDisk;
  start();
  while (relieved_ < 3) loop_.run_one();
  EXPECT_EQ(gate_.room(), core::DiskRoom::little);
}

TEST_F(DiskWatchTest, WritesNoBallastThatItWouldSoonRemove) {
  options_.disk_reserve = kMoreThanAnyDisk;
  options_.disk_minimum = 0;
  start();
  EXPECT_FALSE(ballast());
}

TEST_F(DiskWatchTest, DoesNothingForAnEngineWithoutADirectory) {
  options_.engine = "memory:";
  options_.disk_reserve = kMoreThanAnyDisk;
  start();
  EXPECT_EQ(gate_.room(), core::DiskRoom::enough);
  watch_->engine_failed();
  EXPECT_EQ(relieved_, 0);
}

}  // namespace
}  // namespace c10dd::daemon
