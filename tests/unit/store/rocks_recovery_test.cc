// SPDX-License-Identifier: Apache-2.0
// Acknowledged rows after damage: either all of them are there, or opening is refused with a text
// that says what is missing, and no file is changed.
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <random>

#include "store/rocks/high_water.h"
#include "store/rocks/layout.h"
#include "tests/unit/store/state_home.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kBatches = 60;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class RocksRecovery : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  StateHome home_{directory_.path() + "/state"};

  HighWaterMark mark() const { return HighWaterFile::open(home_.path()).value().mark(); }
  void write_mark(const HighWaterMark& mark) const {
    ASSERT_TRUE(HighWaterFile::open(home_.path())->write(mark));
  }

  /// Changes the mark as if it had been written before the newest changes, which have this many
  /// rows.
  void set_mark_back(std::uint64_t rows) const {
    HighWaterMark older = mark();
    older.sequence -= 2 * rows;  // each with the head of its job
    older.revisions -= rows;
    write_mark(older);
  }

  /// Copies the state as a SIGKILL at this moment would leave it.
  StateHome crash_image(const std::string& name) const {
    StateHome image(directory_.path() + "/" + name);
    fs::copy(home_.path(), image.path(), fs::copy_options::recursive);
    image.acknowledged = home_.acknowledged;
    return image;
  }

  /// Expects that opening is refused with all these words, and that no byte is changed.
  void refuses(Code code, const std::vector<std::string>& words) {
    const auto before = files_of(home_.path());
    const auto engine = home_.open();
    ASSERT_FALSE(engine) << "opened, rolled back: " << (*engine)->rolled_back();
    EXPECT_EQ(engine.error().code, code) << engine.error().detail;
    for (const std::string& word : words) {
      EXPECT_TRUE(contains(engine.error().detail, word)) << word << " in " << engine.error().detail;
    }
    auto after = files_of(home_.path());
    after[home_.path() / "c10dd.lock"] = before.at(home_.path() / "c10dd.lock");
    EXPECT_TRUE(before == after) << "a file was changed by the refusal";
  }

  /// Expects that the state opens with all acknowledged rows, as if nothing had happened.
  static void opens_whole(StateHome& home, Durability durability = Durability::fsync) {
    auto engine = home.open({durability});
    ASSERT_TRUE(engine) << engine.error().detail;
    EXPECT_EQ((*engine)->rolled_back(), "");
    const auto state = read_state(**engine, home.acknowledged);
    ASSERT_TRUE(state) << state.error().detail;
    EXPECT_TRUE(*state == home.acknowledged);
  }

  /// Opens after the loss was accepted. Expects that the loss is reported until renewed().
  void opens_accepted(bool whole = false) {
    {
      auto engine = home_.open({Durability::fsync, true});
      ASSERT_TRUE(engine) << engine.error().detail;
      EXPECT_NE((*engine)->rolled_back(), "");
      const auto state = read_state(**engine, home_.acknowledged);
      ASSERT_TRUE(state) << state.error().detail;
      EXPECT_EQ(*state == home_.acknowledged, whole);
      home_.acknowledged = *state;
    }
    {
      auto engine = home_.open();
      ASSERT_TRUE(engine) << engine.error().detail;
      EXPECT_NE((*engine)->rolled_back(), "") << "nobody has renewed it";
      (*engine)->renewed();
      home_.write(**engine, 10);
    }
    opens_whole(home_);
  }
};

TEST_F(RocksRecovery, OpensWholeWhatWasClosed) {
  home_.write_and_close(kBatches);
  opens_whole(home_);
  home_.write_and_close(kBatches);
  opens_whole(home_);
}

TEST_F(RocksRecovery, OpensWholeWhatWasKilled) {
  home_.write_and_close(kBatches);
  auto engine = home_.open();
  ASSERT_TRUE(engine);
  for (int kill = 0; kill < 5; ++kill) {
    home_.write(**engine, 20);
    StateHome image = crash_image("kill" + std::to_string(kill));
    opens_whole(image);
  }
}

TEST_F(RocksRecovery, LogCutInHalf) {
  home_.write_and_close(kBatches);
  const fs::path log = home_.file(".log");
  fs::resize_file(log, fs::file_size(log) / 2);
  refuses(Code::state_rolled_back, {log, std::to_string(mark().sequence), "--accept-rollback"});
  opens_accepted();
}

TEST_F(RocksRecovery, LogDeleted) {
  home_.write_and_close(kBatches);
  fs::remove(home_.file(".log"));
  refuses(Code::state_rolled_back, {std::to_string(mark().sequence), "has no log"});
  opens_accepted();
}

TEST_F(RocksRecovery, LogDeletedAfterTheFirstWasWrittenOut) {
  home_.write_and_close(kBatches);
  home_.write_and_close(kBatches);
  const std::string number = std::to_string(mark().log_number);
  fs::remove(home_.file(".log"));
  refuses(Code::state_rolled_back,
          {"has no log file", "from number " + number + " on", std::to_string(mark().sequence)});
  opens_accepted();
}

TEST_F(RocksRecovery, OldestLogDeleted) {
  home_.write_and_close(kBatches);
  const StateHome first = crash_image("first");
  home_.write_and_close(kBatches);
  const fs::path log = home_.file(".log");
  const Bytes bytes = contents(log);  // goes on where the first log ends
  fs::remove_all(home_.path());
  fs::copy(first.path(), home_.path(), fs::copy_options::recursive);
  fs::remove(home_.file(".log"));
  replace(log, bytes);
  refuses(Code::state_rolled_back,
          {"log files are missing", log.filename(), std::to_string(mark().sequence)});
}

TEST_F(RocksRecovery, LogDamagedInTheMiddle) {
  home_.write_and_close(kBatches);
  const fs::path log = home_.file(".log");
  flip(log, fs::file_size(log) / 2, 3);
  refuses(Code::state_rolled_back, {log, std::to_string(mark().sequence)});
  opens_accepted();
}

TEST_F(RocksRecovery, LogWithALengthThatReachesBeyondItsEnd) {
  home_.write_and_close(20);
  const fs::path log = home_.file(".log");
  flip(log, 5, 1);  // of the first record: RocksDB takes the rest for a torn tail
  refuses(Code::state_rolled_back, {log, std::to_string(mark().sequence)});
}

TEST_F(RocksRecovery, TornTailBehindTheMarkIsCutOff) {
  home_.write_and_close(kBatches);
  replace(home_.file(".log"), contents(home_.file(".log")) + "half a record");
  opens_whole(home_);
}

TEST_F(RocksRecovery, DamageBehindTheMarkIsCutOff) {
  home_.write_and_close(kBatches);
  set_mark_back(15);
  const fs::path log = home_.file(".log");
  flip(log, fs::file_size(log) - 50, 3);
  auto engine = home_.open();
  ASSERT_TRUE(engine) << engine.error().detail;
  EXPECT_EQ((*engine)->rolled_back(), "");
}

TEST_F(RocksRecovery, DamageBeforeALaterCommitIsNoTornTail) {
  home_.write_and_close(kBatches);
  set_mark_back(15);
  const fs::path log = home_.file(".log");
  const Bytes intact = contents(log);
  // All places in some commits, so that each part of a record is hit.
  for (std::size_t back = 700; back < 1'300; back += 13) {
    SCOPED_TRACE(back);
    flip(log, intact.size() - back, 16);
    refuses(Code::state_rolled_back, {home_.path() / "rows", "has the intact change"});
    replace(log, intact);
  }
  flip(log, intact.size() - 1'000, 16);
  const HighWaterMark synced = mark();
  HighWaterMark unsynced = synced;
  unsynced.holds = HighWaterMark::Holds::this_boot;
  unsynced.boot = boot_number();
  write_mark(unsynced);
  {
    StateHome image = crash_image("without syncs");
    EXPECT_TRUE(image.open({Durability::os})) << "any page of it may be missing";
  }
  write_mark(synced);
  opens_accepted();
}

TEST_F(RocksRecovery, PagesOfTheLastCommitMayBeThereInAnyOrder) {
  constexpr std::size_t kPage = 4'096;
  constexpr std::size_t kLast = 290'000;  // bytes at the end that are of the last commit only
  home_.write_and_close(kBatches);
  State before;
  {
    auto engine = home_.open();
    ASSERT_TRUE(engine) << engine.error().detail;
    home_.write(**engine, 20);
    before = home_.acknowledged;
    home_.write(**engine, 1, 100'000);
  }
  set_mark_back(3);
  std::mt19937_64 random(1);
  for (int n = 0; n < 30; ++n) {
    SCOPED_TRACE(n);
    StateHome image = crash_image("power cut");
    image.acknowledged = before;
    Bytes log = contents(image.file(".log"));
    std::size_t lost = 0;
    for (std::size_t at = (log.size() - kLast) / kPage * kPage + kPage; at < log.size();
         at += kPage) {
      if (random() % 4 != 0) continue;
      log.replace(at, std::min(kPage, log.size() - at), std::min(kPage, log.size() - at), '\0');
      ++lost;
    }
    ASSERT_GT(lost, 0u);
    if (n % 3 == 0) log.resize(log.size() - random() % kLast);
    replace(image.file(".log"), log);
    opens_whole(image);
    fs::remove_all(image.path());
  }
}

TEST_F(RocksRecovery, AReopeningRefusesLessThanItsProcessHasAcknowledged) {
  home_.write_and_close(kBatches);
  const StateHome older = crash_image("older");
  auto engine = home_.open();
  ASSERT_TRUE(engine) << engine.error().detail;
  home_.write(**engine, kBatches);
  const std::shared_ptr<const HighWaterMark> acknowledged = (*engine)->acknowledged();
  ASSERT_TRUE(acknowledged);
  const fs::path away = directory_.path() + "/away";
  fs::rename(home_.path(), away);
  engine->reset();
  const auto refused = [&](const std::string& word) {
    const auto again = home_.open({.acknowledged = acknowledged});
    ASSERT_FALSE(again) << word;
    EXPECT_EQ(again.error().code, Code::state_rolled_back) << again.error().detail;
    EXPECT_TRUE(contains(again.error().detail, std::to_string(acknowledged->sequence)))
        << again.error().detail;
    EXPECT_TRUE(contains(again.error().detail, word)) << again.error().detail;
  };
  refused("is gone");
  EXPECT_FALSE(fs::exists(home_.path())) << "it was made anew";
  fs::create_directory(home_.path());
  refused("is gone");
  EXPECT_TRUE(fs::is_empty(home_.path()));
  fs::remove(home_.path());
  fs::copy(older.path(), home_.path(), fs::copy_options::recursive);
  refused("the high-water mark is at");
  fs::remove_all(home_.path());
  fs::rename(away, home_.path());
  const auto back = home_.open({.acknowledged = acknowledged});
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_TRUE(*read_state(**back, home_.acknowledged) == home_.acknowledged);
}

TEST_F(RocksRecovery, TableDamagedOrGone) {
  home_.write_and_close(kBatches);
  home_.write_and_close(kBatches);  // the reopening wrote the log out
  const fs::path table = home_.file(".sst");
  ASSERT_FALSE(table.empty());
  const Bytes intact = contents(table);
  for (const std::size_t offset : {std::size_t{10}, intact.size() / 2, intact.size() - 4}) {
    flip(table, offset, 3);
    refuses(Code::malformed, {table.stem()});
    replace(table, intact);
  }
  fs::resize_file(table, intact.size() / 2);
  refuses(Code::malformed, {table.stem()});
  fs::remove(table);
  refuses(Code::malformed, {table.stem()});
  replace(table, intact);
  opens_whole(home_);
}

TEST_F(RocksRecovery, DamagedTableIsNamedWhereRollbackIsAccepted) {
  home_.write_and_close(kBatches);
  home_.write_and_close(kBatches);
  const fs::path table = home_.file(".sst");
  flip(table, contents(table).size() / 2, 3);
  const auto engine = home_.open({Durability::fsync, true});
  ASSERT_TRUE(engine) << engine.error().detail;
  EXPECT_TRUE(contains(std::string((*engine)->damage()), table)) << (*engine)->damage();
  EXPECT_EQ((*engine)->rolled_back(), "") << "what can be read is all there";
  const auto state = read_state(**engine, home_.acknowledged);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::malformed);
  EXPECT_TRUE(contains(state.error().detail, table)) << state.error().detail;
}

TEST_F(RocksRecovery, ManifestOrCurrentGone) {
  home_.write_and_close(kBatches);
  home_.write_and_close(kBatches);
  for (const std::string name : {"MANIFEST", "CURRENT"}) {
    const fs::path file = home_.file(name);
    const Bytes intact = contents(file);
    fs::remove(file);
    refuses(Code::malformed, {home_.path()});
    EXPECT_FALSE(home_.open({Durability::fsync, true})) << "no point in time is left";
    replace(file, "");
    refuses(Code::malformed, {home_.path()});
    replace(file, intact);
  }
  opens_whole(home_);
}

TEST_F(RocksRecovery, ManifestThatLostItsEnd) {
  home_.write_and_close(kBatches);
  home_.write_and_close(kBatches);
  const fs::path manifest = home_.file("MANIFEST");
  const Bytes intact = contents(manifest);
  int refused = 0;
  for (std::size_t size = intact.size() - 1; size > 0; size -= std::min<std::size_t>(size, 7)) {
    fs::resize_file(manifest, size);
    if (auto engine = home_.open()) {
      const auto state = read_state(**engine, home_.acknowledged);
      ASSERT_TRUE(state && *state == home_.acknowledged) << "cut at " << size;
      return;  // it has written a manifest of its own
    }
    ++refused;
    replace(manifest, intact);
  }
  EXPECT_GT(refused, 10);
}

TEST_F(RocksRecovery, RowsGone) {
  home_.write_and_close(kBatches);
  fs::remove_all(home_.path() / "rows");
  refuses(Code::state_rolled_back, {"is empty", std::to_string(mark().sequence)});
  fs::create_directory(home_.path() / "rows");
  refuses(Code::state_rolled_back, {"is empty", std::to_string(mark().sequence)});
  opens_accepted();
}

TEST_F(RocksRecovery, HighWaterFileGoneOrDamaged) {
  home_.write_and_close(kBatches);
  replace(home_.high_water(), "no mark");
  refuses(Code::state_rolled_back, {home_.high_water(), "damaged"});
  fs::remove(home_.high_water());
  refuses(Code::state_rolled_back, {home_.high_water(), "missing"});
  opens_accepted(true);
}

TEST_F(RocksRecovery, ChainLost) {
  home_.write_and_close(kBatches);
  {
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, home_.path() / "rows", &db).ok());
    ASSERT_TRUE(db->Delete({}, tagged(kHeadTag, 2)).ok());
    delete db;
  }
  const auto engine = home_.open();
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::state_rolled_back);
  EXPECT_TRUE(contains(engine.error().detail,
                       "number of jobs in rows/ is 2, but the high-water mark has 3"))
      << engine.error().detail;
  opens_accepted();
  EXPECT_EQ(home_.acknowledged[2].size(), 10u) << "rows of the lost job came back";
}

TEST_F(RocksRecovery, FirstStartMayDieAnywhere) {
  {
    auto file = HighWaterFile::open(directory_.path());
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(HighWaterMark{}));
  }
  fs::create_directories(home_.path() / "rows");
  fs::rename(directory_.path() + "/highwater", home_.high_water());
  replace(home_.path() / "rows/MANIFEST-000001", "half a");
  home_.write_and_close(10);
  opens_whole(home_);
}

TEST_F(RocksRecovery, NoneKeepsEverythingAtACleanCloseOnly) {
  {
    auto engine = home_.open({Durability::none});
    ASSERT_TRUE(engine) << engine.error().detail;
    EXPECT_EQ((*engine)->durability(), "none");
    home_.write(**engine, kBatches);
  }
  opens_whole(home_, Durability::none);
  auto engine = home_.open({Durability::none});
  ASSERT_TRUE(engine);
  home_.write(**engine, 10);
  const StateHome image = crash_image("killed");
  auto killed = image.open();
  ASSERT_TRUE(killed) << killed.error().detail;
  EXPECT_TRUE(contains(std::string((*killed)->rolled_back()), "none"));
  ASSERT_TRUE(read_state(**killed, image.acknowledged));
}

TEST_F(RocksRecovery, OsSurvivesTheProcessAndSaysWhenTheMachineLostSomething) {
  auto engine = home_.open({Durability::os});
  ASSERT_TRUE(engine) << engine.error().detail;
  home_.write(**engine, kBatches);
  StateHome image = crash_image("killed");
  opens_whole(image, Durability::os);
  engine->reset();
  opens_whole(home_, Durability::os);

  home_.write_and_close(kBatches);
  HighWaterMark held = mark();
  held.holds = HighWaterMark::Holds::this_boot;
  held.boot = boot_number();
  write_mark(held);
  const fs::path log = home_.file(".log");
  fs::resize_file(log, fs::file_size(log) / 2);
  refuses(Code::state_rolled_back, {log});
  held.boot = boot_number() + 1;
  write_mark(held);
  auto after_power_loss = home_.open({Durability::os});
  ASSERT_TRUE(after_power_loss) << after_power_loss.error().detail;
  EXPECT_TRUE(contains(std::string((*after_power_loss)->rolled_back()), log));
}

TEST_F(RocksRecovery, CheckpointIsOpenedAsAnotherIncarnation) {
  std::string warnings;
  const auto warn = [&](std::string_view line) { warnings.append(line).append("\n"); };
  auto engine = home_.open({.warn = warn});
  ASSERT_TRUE(engine);
  home_.write(**engine, kBatches);
  StateHome copy(directory_.path() + "/copy");
  copy.acknowledged = home_.acknowledged;
  ASSERT_TRUE((*engine)->checkpoint(copy.path()));
  EXPECT_EQ(warnings, "");
  home_.write(**engine, 10);  // goes on
  for (const bool first : {true, false}) {
    auto restored = copy.open();
    ASSERT_TRUE(restored) << restored.error().detail;
    EXPECT_EQ((*restored)->rolled_back().empty(), !first);
    EXPECT_TRUE(*read_state(**restored, copy.acknowledged) == copy.acknowledged);
    (*restored)->renewed();
    copy.write(**restored, 10);
  }
  engine->reset();
  opens_whole(home_);
}

TEST_F(RocksRecovery, CheckpointRefusesWhatItCannotMake) {
  auto engine = home_.open();
  ASSERT_TRUE(engine);
  const std::string below = home_.path() / "below";
  const std::string slash = directory_.path() + "/slash/";
  for (const std::string& path : {std::string("relative"), std::string(), directory_.path(), below,
                                  slash, directory_.path() + "/no/such"}) {
    const Result<void> done = (*engine)->checkpoint(path);
    ASSERT_FALSE(done) << path;
    EXPECT_EQ(done.error().code, Code::invalid_argument) << done.error().detail;
    EXPECT_TRUE(contains(done.error().detail, path)) << done.error().detail;
  }
  fs::create_directory(directory_.path() + "/left.partial");
  const Result<void> left = (*engine)->checkpoint(directory_.path() + "/left");
  ASSERT_FALSE(left);
  EXPECT_TRUE(contains(left.error().detail, "interrupted")) << left.error().detail;
}

}  // namespace
}  // namespace c10dd::store
