// SPDX-License-Identifier: Apache-2.0
// What only the RocksDB engine has: a directory, a format, and keys in byte order.
#include <gtest/gtest.h>

#include <rocksdb/db.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "store/rocks/layout.h"
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
    change([&](rocksdb::DB& db) { return db.Put({}, "f", format); });
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

}  // namespace
}  // namespace c10dd::store
