// SPDX-License-Identifier: Apache-2.0
// Which changes watches can still get, and which of them are rows. The replies to watches are
// tested in scripts/watch*.txt.
#include "daemon/core/keys/history.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

Watch key(const Bytes& name, Revision from = 1) { return {name, false, from, 0, Duration{0}}; }
Watch prefix(const Bytes& name, Revision from = 1) { return {name, true, from, 0, Duration{0}}; }

/// A History and the rows that it would find after a restart.
class Watched {
 public:
  explicit Watched(const Quotas& quotas = {}) : quotas_(quotas), history_(0, quotas) {}

  void set(const Bytes& name, Revision revision, const Bytes& value = "v") {
    history_.add({revision, false, name, value}, rows_);
    apply(revision);
  }
  void watched(const Watch& watch, Revision revision, int now = 0) {
    history_.watched(watch, revision, at(now), nullptr, {}, rows_);
    apply(revision);
  }
  void forget(const Watch& watch) {
    history_.forget(watch, rows_);
    apply(head_);
  }
  void restart(int now = 0) {
    history_ = History(head_, quotas_);
    for (const auto& [row, value] : table_) {
      ASSERT_TRUE(History::owns({Row::Kind::put, row, value}));
      ASSERT_TRUE(history_.restore({Row::Kind::put, row, value}));
    }
    history_.resume(at(now));
  }
  /// Returns REVISION:KEY of each change, or from which revision on there are changes.
  std::string read(const Watch& watch) const {
    const Revision start = history_.start(watch);
    if (watch.from < start) return "from " + std::to_string(start);
    Changes changes;
    history_.read(watch, head_, changes);
    std::string text;
    for (const Change& change : changes.changes) {
      text += std::to_string(change.revision) + ':' + change.key.str() + ' ';
    }
    return text + std::to_string(changes.next) + '+' + std::to_string(changes.skip);
  }
  History& history() { return history_; }
  std::size_t rows() const { return table_.size(); }

 private:
  void apply(Revision revision) {
    head_ = std::max(head_, revision);
    for (const Row& row : std::exchange(rows_, {})) {
      table_.erase(row.key);
      if (row.kind == Row::Kind::put) table_[row.key] = row.value;
    }
  }

  Quotas quotas_;
  History history_;
  Rows rows_;
  std::map<Bytes, Bytes> table_;
  Revision head_ = 0;
};

Quotas few(std::size_t changes) {
  Quotas quotas;
  quotas.history_changes = changes;
  return quotas;
}

TEST(History, TellsWhatConcernsAWatchInOrder) {
  Watched world;
  world.set("a", 1);
  world.set("ab", 1);
  world.set("b", 2);
  world.set("a", 4);
  EXPECT_EQ(world.read(key("a")), "1:a 4:a 5+0");
  EXPECT_EQ(world.read(prefix("a")), "1:a 1:ab 4:a 5+0");
  EXPECT_EQ(world.read(prefix("")), "1:a 1:ab 2:b 4:a 5+0");
  EXPECT_EQ(world.read(prefix("a", 2)), "4:a 5+0");
  EXPECT_EQ(world.read(key("c")), "5+0");
  EXPECT_EQ(world.read(key("a", 9)), "9+0");
  Watch later = prefix("a", 1);
  later.skip = 1;
  EXPECT_EQ(world.read(later), "1:ab 4:a 5+0");
  later.from = 4;
  EXPECT_EQ(world.read(later), "5+0");
}

TEST(History, KeepsNoRowOfWhatNobodyWatches) {
  Watched world;
  world.set("a", 1);
  EXPECT_EQ(world.rows(), 0u);
  world.restart();
  EXPECT_EQ(world.read(key("a")), "from 2");
  EXPECT_EQ(world.read(key("a", 2)), "2+0");
}

TEST(History, KeepsRowsOfWhatIsWatchedFromThenOn) {
  Watched world;
  world.set("dir/a", 1);
  world.watched(prefix("dir/"), 1);
  world.watched(key("k"), 1);
  world.set("dir/a", 3);
  world.set("dir", 4);
  world.set("k", 5);
  world.set("kk", 6);
  EXPECT_EQ(world.rows(), 4u);
  world.restart();
  EXPECT_EQ(world.read(prefix("dir/")), "from 2");
  EXPECT_EQ(world.read(prefix("dir/", 2)), "3:dir/a 7+0");
  EXPECT_EQ(world.read(key("k", 2)), "5:k 7+0");
  EXPECT_EQ(world.read(prefix("k", 2)), "from 7");
  EXPECT_EQ(world.read(key("dir/a", 2)), "from 7");
  world.set("dir/b", 7);
  EXPECT_EQ(world.read(prefix("dir/", 2)), "3:dir/a 7:dir/b 8+0");
}

TEST(History, DropsTheOldestRevisionAsAWhole) {
  Watched world(few(3));
  world.set("a", 1);
  world.set("b", 1);
  world.set("c", 2);
  EXPECT_EQ(world.read(prefix("")), "1:a 1:b 2:c 3+0");
  world.set("d", 3);
  EXPECT_EQ(world.read(prefix("")), "from 2");
  EXPECT_EQ(world.read(prefix("", 2)), "2:c 3:d 4+0");
}

TEST(History, DropsRowsOfItsOwnBoundAndRemembersThat) {
  Watched world(few(2));
  world.watched(key("k"), 0);
  for (Revision revision = 1; revision <= 4; ++revision) world.set("k", revision);
  EXPECT_EQ(world.read(key("k")), "from 3");
  EXPECT_EQ(world.rows(), 4u);
  world.restart();
  EXPECT_EQ(world.read(key("k")), "from 3");
  EXPECT_EQ(world.read(key("k", 3)), "3:k 4:k 5+0");
  for (Revision revision = 5; revision <= 9; ++revision) world.set("other", revision);
  EXPECT_EQ(world.read(key("k", 3)), "3:k 4:k 10+0");
  EXPECT_EQ(world.read(key("other", 5)), "from 8");
}

TEST(History, HoldsItsBytes) {
  Quotas quotas;
  quotas.history_bytes = 3'000;
  Watched world(quotas);
  world.watched(prefix("kept/"), 0);
  for (Revision revision = 1; revision <= 100; ++revision) {
    world.set(revision % 2 == 0 ? "kept/k" : "k", revision, Bytes(900, 'x'));
    EXPECT_LE(world.history().bytes(), 2 * quotas.history_bytes);
  }
  EXPECT_EQ(world.read(prefix("kept/", 97)), "98:kept/k 100:kept/k 101+0");
  EXPECT_EQ(world.read(key("k", 97)), "97:k 99:k 101+0");
  world.set("k", 101, Bytes(5'000, 'x'));
  world.set("kept/k", 102, Bytes(5'000, 'x'));
  EXPECT_EQ(world.history().bytes(), 0u);
  EXPECT_EQ(world.read(prefix("kept/", 100)), "from 103");
  EXPECT_EQ(world.rows(), 2u);
}

TEST(History, ForgetsWhatNobodyHasAskedFor) {
  Watched world;
  const int minutes = 60;
  world.watched(key("a"), 0, 0);
  world.watched(prefix("a"), 0, 4 * minutes);
  EXPECT_EQ(world.history().next_deadline(), at(10 * minutes));
  EXPECT_TRUE(world.history().due(at(10 * minutes - 1), 9).empty());
  world.watched(key("a"), 0, 5 * minutes);
  EXPECT_EQ(world.history().next_deadline(), at(14 * minutes));
  const std::vector<Watch> due = world.history().due(at(15 * minutes), 9);
  ASSERT_EQ(due.size(), 2u);
  EXPECT_TRUE(due[0].prefix);
  EXPECT_EQ(world.history().due(at(15 * minutes), 1).size(), 1u);
  world.set("a", 1);
  for (const Watch& watch : due) world.forget(watch);
  world.forget(due[0]);
  EXPECT_EQ(world.history().next_deadline(), std::nullopt);
  world.set("a", 2);
  EXPECT_EQ(world.rows(), 1u);  // of the change from before
  EXPECT_EQ(world.read(key("a")), "1:a 2:a 3+0");
  world.restart();
  EXPECT_EQ(world.read(key("a")), "from 3");
}

TEST(History, GivesWatchesTheirTimeAfterARestart) {
  Watched world;
  world.watched(key("a"), 0, 0);
  world.restart(1'000);
  EXPECT_EQ(world.history().next_deadline(), at(1'600));
}

TEST(History, RefusesDamagedRows) {
  Rows rows;
  History history(0, few(1));
  history.watched(prefix("dir/"), 0, at(0), nullptr, {}, rows);
  history.add({1, false, "dir/a", "value"}, rows);
  history.add({2, false, "dir/b", "value"}, rows);
  for (const Row& row : rows) {
    if (row.kind != Row::Kind::put) continue;
    EXPECT_TRUE(History(9, {}).restore(row)) << row.key[0];
    EXPECT_FALSE(History(9, {}).restore({row.kind, row.key, row.value.substr(0, 3)}));
    if (row.key[0] != 'w') {
      EXPECT_FALSE(History(9, {}).restore({row.kind, row.key + 'x', row.value}));
    }
    if (row.key.size() < 9) continue;
    EXPECT_FALSE(History(9, {}).restore({row.kind, row.key.substr(0, 6), row.value}));
  }
  EXPECT_FALSE(History(9, {}).restore({Row::Kind::put, "w" + Bytes(8, 'x'), Bytes(rows[0].value)}));
}

/// Random changes, watches, restarts: what is read equals what was done, or is refused.
TEST(History, LosesAndInventsNothing) {
  std::mt19937_64 random(5);
  Watched world(few(20));
  std::vector<std::pair<Revision, Bytes>> all;
  const auto name = [&] { return Bytes(1 + random() % 2, static_cast<char>('a' + random() % 3)); };
  std::size_t heard = 0;
  for (Revision revision = 1; revision < 3'000; ++revision) {
    const Watch watch{name(), random() % 2 == 0, revision - std::min(revision, random() % 30), 0,
                      Duration{0}};
    if (random() % 10 == 0) world.watched(watch, revision - 1);
    if (random() % 20 == 0) world.forget(watch);
    if (random() % 50 == 0) world.restart();
    for (auto n = random() % 3; n > 0; --n) {
      all.emplace_back(revision, name());
      world.set(all.back().second, revision);
    }
    const std::string got = world.read(watch);
    if (got.starts_with("from")) continue;
    std::string expected;
    for (const auto& [when, what] : all) {
      if (when < watch.from || !concerns(watch, what)) continue;
      expected += std::to_string(when) + ':' + what + ' ';
      ++heard;
    }
    ASSERT_TRUE(got.starts_with(expected) && got.size() <= expected.size() + 7)
        << revision << ": got " << got << ", expected " << expected;
  }
  EXPECT_GT(heard, 1'000u);
}

}  // namespace
}  // namespace c10dd::core
