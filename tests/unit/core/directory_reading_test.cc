// SPDX-License-Identifier: Apache-2.0
// Reading the directory in steps gives the directory of one moment, whatever other daemons change
// meanwhile. The rows that lead from one directory to another are those that differ.
#include "daemon/core/directory/directory_reading.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>

#include "daemon/core/directory/directory_mirror.h"
#include "store/memory_engine.h"
#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

class ReadingTest : public testing::Test {
 protected:
  ReadingTest() {
    static_cast<void>(engine_->claim(0));
    change(directory_.resume(7, false, at(0)));
  }

  void change(Effects effects) {
    const store::JobBatch batch{0, 0, revision_, effects.revision, std::move(effects.rows), {}};
    ASSERT_EQ(engine_->commit({&batch, 1}), std::vector{store::Outcome::durable});
    revision_ = effects.revision;
  }
  void open(const std::string& job) {
    Effects effects;
    ASSERT_TRUE(directory_.open(job, "", effects));
    change(std::move(effects));
  }
  void retire(const std::string& job) {
    change(directory_.retire({*directory_.find(job, "")}).effects);
  }

  /// Makes steps until there is something, with a call of `meanwhile` after each.
  DirectoryNews read(DirectoryReading reading, const std::function<void(int step)>& meanwhile) {
    for (int step = 0; step < 100; ++step) {
      Result<std::optional<DirectoryNews>> news = reading.step(*engine_);
      EXPECT_TRUE(news) << news.error().detail;
      if (!news) break;
      if (*news) return std::move(**news);
      meanwhile(step);
    }
    ADD_FAILURE() << "no end";
    return {};
  }
  std::string rows_of(const Directory& directory) {
    std::string all;
    std::map<Bytes, Bytes> sorted;
    for (const RowView& row : directory.rows()) sorted[Bytes(row.key)] = row.value;
    for (const auto& [key, value] : sorted) all += key + "=" + value + ";";
    return all;
  }

  std::shared_ptr<store::SharedMemory> memory_ = std::make_shared<store::SharedMemory>();
  std::unique_ptr<store::Engine> engine_ = store::open_on(memory_, 1);
  Directory directory_{0};
  Revision revision_ = 0;
};

TEST_F(ReadingTest, OfChangesReadsNoMore) {
  open("a");
  const Revision known = revision_;
  open("b");
  const DirectoryNews news = read(DirectoryReading({}, known), [](int) {});
  EXPECT_FALSE(news.whole);
  EXPECT_EQ(news.revision, revision_);
  EXPECT_EQ(news.changes.size(), 2U) << "the entry, and the next number";
  EXPECT_TRUE(read(DirectoryReading({}, revision_), [](int) {}).changes.empty());
}

TEST_F(ReadingTest, ReadsEverythingIfChangesAreMissing) {
  open("a");
  const Revision known = revision_;
  open("b");
  memory_->jobs[0].newest.pop_back();
  const DirectoryNews news = read(DirectoryReading({}, known), [](int) {});
  ASSERT_TRUE(news.whole);
  EXPECT_EQ(rows_of(*news.whole), rows_of(directory_));
}

TEST_F(ReadingTest, TakesWhatChangesBetweenTheSteps) {
  for (int i = 0; i < 4'000; ++i) open("job" + std::to_string(i));
  int changes = 0;
  const DirectoryNews news = read(DirectoryReading(Directory::Limits{}), [&](int step) {
    open("a" + std::to_string(step));   // before what was read
    open("zz" + std::to_string(step));  // after it
    retire("job" + std::to_string(step));
    retire("job39" + std::to_string(10 + step));
    changes += 4;
  });
  ASSERT_TRUE(news.whole);
  EXPECT_GE(changes, 8);
  EXPECT_EQ(news.revision, revision_);
  EXPECT_EQ(rows_of(*news.whole), rows_of(directory_));
}

TEST_F(ReadingTest, BeginsAgainIfWhatChangedMeanwhileIsNotKept) {
  for (int i = 0; i < 2'000; ++i) open("job" + std::to_string(i));
  DirectoryReading reading{Directory::Limits{}};
  ASSERT_FALSE(*reading.step(*engine_));
  open("a");
  memory_->jobs[0].newest.clear();
  while (reading.readings() == 1) ASSERT_FALSE(*reading.step(*engine_));
  const DirectoryNews news = read(std::move(reading), [](int) {});
  ASSERT_TRUE(news.whole);
  EXPECT_EQ(rows_of(*news.whole), rows_of(directory_));
}

TEST_F(ReadingTest, NoticesThatRowsWereErased) {
  for (int i = 0; i < 2'000; ++i) open("job" + std::to_string(i));
  DirectoryReading reading{Directory::Limits{}};
  ASSERT_FALSE(*reading.step(*engine_));
  memory_->jobs[0].rows.erase(std::next(memory_->jobs[0].rows.begin()));  // no change tells it
  Result<std::optional<DirectoryNews>> news = std::nullopt;
  while (news && !*news) news = reading.step(*engine_);
  ASSERT_FALSE(news);
  EXPECT_EQ(news.error().code, Code::malformed);
}

TEST_F(ReadingTest, MirrorTellsWhatUndoesAChangeAndWhatLeadsToANewerDirectory) {
  open("a");
  open("b");
  DirectoryMirror mirror;
  mirror.begin(directory_);
  const std::string before = rows_of(directory_);
  const Revision revision = directory_.revision();

  Effects opened;
  ASSERT_TRUE(directory_.open("c", "", opened));
  const Rows undone = mirror.undo(opened.rows);
  ASSERT_TRUE(directory_.follow(undone, revision, at(1)));
  EXPECT_EQ(rows_of(directory_), before);
  EXPECT_EQ(directory_.revision(), revision);

  const Directory::Retired retired = directory_.retire({1});
  const auto back = directory_.follow(mirror.undo(retired.effects.rows), revision, at(1));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->removed.empty());
  EXPECT_EQ(rows_of(directory_), before);

  Directory newer(9);
  for (const RowView& row : directory_.rows()) ASSERT_TRUE(newer.restore(row));
  Effects effects;
  ASSERT_TRUE(newer.open("d", "run", effects));
  ASSERT_EQ(newer.retire({2}).entries.size(), 1U);
  const Rows rows = mirror.difference(newer);
  EXPECT_EQ(rows.size(), 4U) << "entry, mark, erasure and next number, and no other";
  const auto followed = directory_.follow(rows, newer.revision(), at(1));
  ASSERT_TRUE(followed);
  ASSERT_EQ(followed->removed.size(), 1U);
  EXPECT_EQ(followed->removed[0].number, 2U);
  EXPECT_EQ(rows_of(directory_), rows_of(newer));
  mirror.apply(rows);
  EXPECT_TRUE(mirror.difference(directory_).empty());
}

TEST_F(ReadingTest, ARunThatIsMadeAgainHasANewNumber) {
  open("a");
  Directory other(revision_);
  for (const RowView& row : directory_.rows()) ASSERT_TRUE(other.restore(row));
  const Revision known = revision_;
  retire("a");
  open("a");
  const DirectoryNews news = read(DirectoryReading({}, known), [](int) {});
  const auto followed = other.follow(news.changes, news.revision, at(1));
  ASSERT_TRUE(followed);
  ASSERT_EQ(followed->removed.size(), 1U);
  EXPECT_EQ(followed->removed[0].number, 1U);
  EXPECT_EQ(other.find("a", ""), 2U);
  EXPECT_EQ(rows_of(other), rows_of(directory_));
}

TEST_F(ReadingTest, DamagedRowsAreNotFollowed) {
  const RowView damaged[] = {{Row::Kind::put, "jx", "1"},        {Row::Kind::put, "x", "1"},
                             {Row::Kind::erase, "m1", {}},       {Row::Kind::erase, "i", {}},
                             {Row::Kind::erase_prefix, "j", {}}, {Row::Kind::put, "n", "1"}};
  for (const RowView& row : damaged) {
    Rows rows;
    rows.push_back(row);
    const auto followed = directory_.follow(rows, 99, at(1));
    ASSERT_FALSE(followed) << row.key;
    EXPECT_EQ(followed.error().code, Code::malformed);
  }
}

}  // namespace
}  // namespace c10dd::core
