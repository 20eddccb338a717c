// SPDX-License-Identifier: Apache-2.0
// What only the RocksDB engine has: a directory, a format, keys in byte order, and compactions for
// the sake of room.
#include <gtest/gtest.h>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "store/rocks/layout.h"
#include "store/rocks/room.h"
#include "tests/unit/store/durable_names.h"
#include "tests/unit/store/engine_home.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::store {
namespace {

TEST(RocksLayout, SortsJobsByNumberAndRowsByKey) {
  EXPECT_LT(tagged(kRowTag, 1, "z"), tagged(kRowTag, 2, "a"));
  EXPECT_LT(tagged(kRowTag, 255, "z"), tagged(kRowTag, 256, "a"));
  EXPECT_LT(tagged(kRowTag, 1, "a"), tagged(kRowTag, 1, "a\xff"));
  EXPECT_EQ(job_of(tagged(kHeadTag, 0x0123456789abcdef)), 0x0123456789abcdefu);
  EXPECT_EQ(after(tagged(kRowTag, ~JobNumber{0}, "\xff")), Bytes("s"));
  EXPECT_EQ(after(Bytes("r\x01\xff")), Bytes("r\x02"));
}

TEST(RocksEngine, NamesTheHolderOfItsDirectory) {
  const TemporaryDirectory directory;
  const auto first = open_engine("rocksdb:" + directory.path());
  ASSERT_TRUE(first) << first.error().detail;
  const auto second = open_engine("rocksdb:" + directory.path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::unavailable);
  EXPECT_NE(second.error().detail.find("pid " + std::to_string(::getpid())), std::string::npos)
      << second.error().detail;
}

TEST(RocksEngine, TheNameOfItsRowsIsOnDisk) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(open_engine("rocksdb:" + directory.path() + "/state"));
  const DurableNames& names = DurableNames::of_this_process();
  for (const char* name : {"/state", "/state/rows", "/state/highwater"}) {
    EXPECT_TRUE(names.contain(directory.path() + name)) << name;
  }
}

TEST(RocksEngine, ReportsWhatItWasAskedFor) {
  const TemporaryDirectory directory;
  const auto engine = open_engine("rocksdb:" + directory.path(), {Durability::os});
  ASSERT_TRUE(engine) << engine.error().detail;
  EXPECT_EQ((*engine)->durability(), "os");
}

TEST(RocksEngine, RefusesAnotherFormatAndRowsWithoutOne) {
  const TemporaryDirectory directory;
  const std::string url = "rocksdb:" + directory.path();
  ASSERT_TRUE(open_engine(url));
  const auto change = [&](const auto& write) {
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, directory.path() + "/rows", &db).ok());
    EXPECT_TRUE(write(*db).ok());
    delete db;
  };
  const std::map<std::string, std::string> others{
      {"1", "before the first release"}, {std::to_string(kStoredFormat + 1), "newer daemon"}};
  for (const auto& [format, advice] : others) {
    change([&, to = format](rocksdb::DB& db) { return db.Put({}, "f", to); });
    const auto engine = open_engine(url);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Code::version_unsupported);
    EXPECT_NE(engine.error().detail.find(advice), std::string::npos) << engine.error().detail;
  }

  change([](rocksdb::DB& db) { return db.Put({}, "f", "one"); });
  EXPECT_EQ(open_engine(url).error().code, Code::malformed);

  change([](rocksdb::DB& db) { return db.Delete({}, "f"); });
  change([](rocksdb::DB& db) { return db.Put({}, "m2345678", "short"); });
  EXPECT_EQ(open_engine(url).error().code, Code::malformed);
  change([](rocksdb::DB& db) { return db.Put({}, "f", std::to_string(kStoredFormat)); });
  EXPECT_EQ(open_engine(url).error().code, Code::malformed) << "a head that is cut short";
}

/// A disk on which only the tables of RocksDB take room, up to a limit.
class SmallDisk final : public rocksdb::FileSystemWrapper {
 public:
  SmallDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "c10dd.test.small_disk"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = target()->NewWritableFile(path, options, file, context);
    if (status.ok() && path.ends_with(".sst")) {
      *file = std::make_unique<Table>(std::move(*file), *this);
    }
    return status;
  }
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    std::error_code none;
    if (path.ends_with(".sst")) used -= std::filesystem::file_size(path, none);
    return target()->DeleteFile(path, options, context);
  }
  rocksdb::IOStatus GetFreeSpace(const std::string&, const rocksdb::IOOptions&, std::uint64_t* free,
                                 rocksdb::IODebugContext*) override {
    *free = limit - std::min<std::uint64_t>(used, limit);
    return rocksdb::IOStatus::OK();
  }

  std::atomic<std::uint64_t> used = 0;
  std::atomic<std::uint64_t> limit = std::uint64_t{1} << 40;
  std::atomic<int> full = 0;  ///< how often a write did not fit

 private:
  class Table final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Table(std::unique_ptr<rocksdb::FSWritableFile> file, SmallDisk& disk)
        : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      return takes_room(data.size()) ? FSWritableFileOwnerWrapper::Append(data, options, context)
                                     : rocksdb::IOStatus::NoSpace();
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& sum,
                             rocksdb::IODebugContext* context) override {
      return takes_room(data.size())
                 ? FSWritableFileOwnerWrapper::Append(data, options, sum, context)
                 : rocksdb::IOStatus::NoSpace();
    }

   private:
    bool takes_room(std::size_t bytes) {
      if (disk_.used + bytes > disk_.limit) {
        ++disk_.full;
        return false;
      }
      disk_.used += bytes;
      return true;
    }

    SmallDisk& disk_;
  };
};

class RoomKeeperTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kUnit = 1 << 20;
  static constexpr int kRows = 400;

  void SetUp() override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = options.target_file_size_base = kUnit;
    options.max_compaction_bytes = 1'000 * kUnit;
    options.env = guard_.env();
    options.listeners = {
        listener_of(std::make_shared<RoomNeed>(kUnit, options.max_compaction_bytes))};
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, home_.path() + "/rows", &db).ok());
    db_.reset(db);
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(db_->Put({}, std::to_string(i), std::string(20'000, 'v')).ok());
    }
    ASSERT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
    keeper_.emplace(*db_, guard_, home_.path(), kUnit);
  }

  void erase(int from, int to, int step) {
    for (int i = from; i < to; i += step) {
      ASSERT_TRUE(db_->Delete({}, std::to_string(i)).ok());
      keeper_->erased(1);
    }
  }

  /// Asks the keeper for room until the condition holds, as a daemon does whose disk is short of
  /// it.
  bool relieve_until(const std::function<bool(bool had_room)>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition(keeper_->relieve())) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const TemporaryDirectory home_;
  const std::shared_ptr<SmallDisk> disk_ = std::make_shared<SmallDisk>();
  RoomGuard guard_{disk_, kUnit / 2};
  std::unique_ptr<rocksdb::DB> db_;
  std::optional<RoomKeeper> keeper_;
};

TEST_F(RoomKeeperTest, GivesRoomBackAfterACompactionThatFoundTheDiskFull) {
  disk_->limit = disk_->used + 2 * kUnit;
  erase(0, kRows, 4);  // what is left does not fit beside the old tables
  ASSERT_TRUE(relieve_until([](bool had_room) { return !had_room; }));
  EXPECT_EQ(disk_->full, 0) << "a flush would have found no room";
  for (int first : {1, 2, 3}) erase(first, kRows, 4);
  keeper_->erased(RoomKeeper::kWorthCompacting);
  EXPECT_TRUE(relieve_until([this](bool had_room) { return had_room && disk_->used < kUnit; }));
}

}  // namespace
}  // namespace c10dd::store
