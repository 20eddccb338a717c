// SPDX-License-Identifier: Apache-2.0
// Barriers over a restart, their bounds, and the texts about who is missing.
#include "daemon/core/barriers/barriers.h"

#include <gtest/gtest.h>

#include <random>

#include "daemon/core/waiting/missing.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr TimePoint kNow{};

BarrierKey barrier(const std::string& group, std::uint64_t sequence = 0) {
  return {BarrierKey::Kind::barrier, group, 0, sequence};
}
BarrierKey exchange(const std::string& group, std::uint64_t sequence = 0) {
  return {BarrierKey::Kind::exchange, group, 0, sequence};
}
SessionId session(std::uint64_t n) { return {1, n}; }

/// Barriers with the rows that they have written; all who arrive are connected.
struct Durable {
  Barriers barriers;
  std::unique_ptr<Sessions> sessions = std::make_unique<Sessions>(Quotas());
  std::map<Bytes, Bytes> table;
  Revision revision = 0;
  bool keeps_rows = true;

  Result<const BarrierState*> arrive(const BarrierKey& key, Rank rank, std::uint32_t size,
                                     std::uint64_t who, std::vector<Bytes> parts = {},
                                     Shape shape = Shape::all, Rank root = 0) {
    Rows rows;
    connect(who);
    Result<const BarrierState*> barrier =
        barriers.arrive(key, rank, {session(who), size, shape, root, std::move(parts)}, *sessions,
                        {}, ++revision, kNow, rows);
    keep(rows);
    return barrier;
  }
  void connect(std::uint64_t who) {
    Rows none;
    Hello hello;
    hello.session = session(who);
    if (sessions->find(hello.session) == nullptr) sessions->open(hello, {{}, who}, 0, kNow, none);
  }
  void leave(std::uint64_t who) {
    Rows rows;
    barriers.leave(session(who), ++revision, rows);
    keep(rows);
  }
  void keep(const Rows& rows) {
    if (!keeps_rows) return;
    for (const Row& row : rows) {
      if (row.kind == Row::Kind::put) table[row.key] = row.value;
      if (row.kind == Row::Kind::erase) {
        EXPECT_EQ(table.erase(row.key), 1u) << "of no row";
      }
      if (row.kind != Row::Kind::erase_prefix) continue;
      std::erase_if(table, [&](const auto& entry) { return entry.first.starts_with(row.key); });
    }
  }
  Durable restarted() const {
    Durable next;
    next.table = table;
    next.revision = revision;
    for (const auto& [key, value] : table) {
      EXPECT_TRUE(next.barriers.restore({Row::Kind::put, key, value}));
    }
    EXPECT_TRUE(next.barriers.resume(kNow));
    return next;
  }
};

void expect_equal(const BarrierState* a, const BarrierState* b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a == nullptr) return;
  EXPECT_EQ(a->world_size, b->world_size);
  EXPECT_EQ(a->shape, b->shape);
  EXPECT_EQ(a->root, b->root);
  EXPECT_EQ(a->complete, b->complete);
  EXPECT_EQ(a->arrived(), b->arrived());
  EXPECT_EQ(a->slices, b->slices);
  EXPECT_EQ(a->missing(), b->missing());
  ASSERT_EQ(a->result == nullptr, b->result == nullptr);
  if (a->result) {
    EXPECT_EQ(*a->result, *b->result);
  }
  ASSERT_EQ(a->arrivals.size(), b->arrivals.size());
  for (const auto& [rank, arrival] : a->arrivals) {
    EXPECT_EQ(arrival.session, b->arrivals.at(rank).session);
    EXPECT_EQ(arrival.parts, b->arrivals.at(rank).parts);
  }
}

TEST(Barriers, AreEqualAfterARestartAndGoOnEqually) {
  constexpr Shape kShapes[] = {Shape::all, Shape::to_root, Shape::from_root, Shape::transpose};
  std::mt19937_64 random(3);
  Durable original;
  for (int i = 0; i < 3'000; ++i) {
    const std::uint64_t sequence = random() % 40;
    const auto rank = static_cast<Rank>(random() % 3);
    if (random() % 200 == 0) {
      original.leave(rank);
    } else if (random() % 2 == 0) {
      (void)original.arrive(barrier("b", sequence), rank, 3, rank);
    } else {
      const Shape shape = kShapes[sequence % 4];
      const std::size_t parts = shape == Shape::transpose                ? 3
                                : shape == Shape::from_root && rank != 0 ? 0
                                                                         : 1;
      (void)original.arrive(exchange("e", sequence), rank, 3, rank,
                            std::vector<Bytes>(parts, std::to_string(i)), shape);
    }
    if (i % 50 != 0) continue;
    Durable restarted = original.restarted();
    for (std::uint64_t s = 0; s < 40; ++s) {
      expect_equal(original.barriers.find(barrier("b", s)),
                   restarted.barriers.find(barrier("b", s)));
      expect_equal(original.barriers.find(exchange("e", s)),
                   restarted.barriers.find(exchange("e", s)));
    }
    EXPECT_EQ(original.barriers.pending(), restarted.barriers.pending());
    if (random() % 2 == 0) original = std::move(restarted);
  }
}

TEST(Barriers, KeepOneRowOfAReleasedBarrierAndTheDataOfAnExchange) {
  Durable d;
  (void)d.arrive(barrier("b"), 0, 2, 0);
  EXPECT_EQ(d.table.size(), 1u);
  (void)d.arrive(barrier("b"), 1, 2, 1);
  EXPECT_EQ(d.table.size(), 1u);
  (void)d.arrive(exchange("e"), 0, 2, 0, {"x"});
  (void)d.arrive(exchange("e"), 1, 2, 1, {"y"});
  EXPECT_EQ(d.table.size(), 4u);
  d.leave(0);
  EXPECT_EQ(d.table.size(), 4u);
  d.leave(1);
  EXPECT_TRUE(d.table.empty());
}

TEST(Barriers, ForgetTheOldestOutcomesAlsoAfterARestart) {
  Durable d;
  // Group "z" is older than group "a": the order is that of completion, not that of the names.
  for (std::uint64_t i = 0; i < limits::kOutcomesKept; ++i) {
    ASSERT_TRUE(d.arrive(barrier(i < 100 ? "z" : "a", i), 0, 1, 0));
  }
  Durable restarted = d.restarted();
  for (Durable* each : {&d, &restarted}) {
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(each->arrive(barrier("new", i), 0, 1, 0));
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(each->barriers.find(barrier("z", i)), nullptr);
      EXPECT_NE(each->barriers.find(barrier("a", 100 + i)), nullptr);
      EXPECT_NE(each->barriers.find(barrier("new", i)), nullptr);
    }
    EXPECT_EQ(each->table.size(), limits::kOutcomesKept);
  }
}

TEST(Barriers, BoundTheBytesOfOutcomes) {
  Durable d;
  d.keeps_rows = false;
  const Bytes part(8 * 1024 * 1024, 'p');
  const std::size_t fit = limits::kOutcomeBytesKept / part.size();
  for (std::uint64_t i = 0; i <= fit; ++i) {
    ASSERT_TRUE(d.arrive(exchange("e", i), 0, 1, 0, {part}));
  }
  EXPECT_EQ(d.barriers.find(exchange("e", 0)), nullptr);
  EXPECT_EQ(d.barriers.find(exchange("e", 1)), nullptr);
  EXPECT_NE(d.barriers.find(exchange("e", 2)), nullptr);
  EXPECT_NE(d.barriers.find(exchange("e", fit)), nullptr);
}

TEST(Barriers, BoundWhatIsUnfinished) {
  Durable many;
  for (std::uint64_t i = 0; i < limits::kBarriersPerJob; ++i) {
    ASSERT_TRUE(many.arrive(barrier("b", i), 0, 2, 0));
  }
  EXPECT_EQ(many.arrive(barrier("c"), 0, 2, 0).error().code, Code::quota_exceeded);
  EXPECT_EQ(many.arrive(barrier("c"), 0, 2, 0).error().code, Code::quota_exceeded);
  ASSERT_TRUE(many.arrive(barrier("b", 7), 1, 2, 1));
  EXPECT_TRUE(many.arrive(barrier("c"), 0, 2, 0));

  Durable large;
  large.keeps_rows = false;
  const Bytes part(16 * 1024 * 1024, 'p');
  Rank rank = 0;
  const auto size = static_cast<std::uint32_t>(limits::kArrivedBytes / part.size() + 2);
  while (large.arrive(exchange("e"), rank, size, rank, {part})) ++rank;
  EXPECT_EQ(rank, limits::kArrivedBytes / part.size() - 1);  // each part has a length, too
  EXPECT_EQ(large.barriers.find(exchange("e"))->arrivals.size(), rank);
  for (std::uint64_t who = 0; who < rank; ++who) large.leave(who);
  EXPECT_EQ(large.barriers.find(exchange("e")), nullptr);
  EXPECT_TRUE(large.arrive(exchange("e"), 0, 1, 0, {part}));
}

TEST(Barriers, ObserveTheirNewestChange) {
  Durable d;
  (void)d.arrive(barrier("b"), 0, 3, 0);
  (void)d.arrive(barrier("b"), 1, 3, 1);
  EXPECT_EQ(d.barriers.find(barrier("b"))->revision, 2u);
  (void)d.arrive(barrier("b"), 1, 3, 1);
  EXPECT_EQ(d.barriers.find(barrier("b"))->revision, 2u);
  d.leave(1);
  EXPECT_EQ(d.barriers.find(barrier("b"))->revision, 4u);
}

TEST(Barriers, RefuseDamagedRows) {
  Durable d;
  (void)d.arrive(exchange("e"), 0, 2, 0, {"x"});
  (void)d.arrive(exchange("e"), 1, 2, 1, {"y"});
  for (const auto& [key, value] : d.table) {
    Barriers barriers;
    EXPECT_FALSE(barriers.restore({Row::Kind::put, key.substr(0, key.size() - 1), value}));
    EXPECT_FALSE(Barriers().restore({Row::Kind::put, key, value.substr(0, value.size() - 1)}));
  }
  Barriers incomplete;
  for (const auto& [key, value] : d.table) {
    if (key == d.table.begin()->first) continue;
    EXPECT_TRUE(incomplete.restore({Row::Kind::put, key, value}));
  }
  EXPECT_EQ(incomplete.resume(kNow).error().code, Code::malformed);
}

TEST(Missing, FoldsRanks) {
  EXPECT_EQ(fold(std::vector<Rank>{}), "[]");
  EXPECT_EQ(fold(std::vector<Rank>{17}), "[17]");
  EXPECT_EQ(fold(std::vector<Rank>{17, 512, 513, 514, 519}), "[17,512-514,519]");
  std::vector<Rank> even;
  for (Rank rank = 0; rank < 1000; rank += 2) even.push_back(rank);
  const std::string text = fold(even);
  EXPECT_TRUE(text.ends_with(",126,...]")) << text;
}

TEST(Missing, WritesDurationsAsPeopleDo) {
  using namespace std::chrono_literals;
  EXPECT_EQ(human(500ms), "0.5 s");
  EXPECT_EQ(human(0ms), "0 s");
  EXPECT_EQ(human(2s), "2 s");
  EXPECT_EQ(human(30s), "30 s");
  EXPECT_EQ(human(600s), "10 min");
  EXPECT_EQ(human(1800s), "30 min");
}

TEST(Missing, ShowsGroupNamesOnlyPrintable) {
  EXPECT_EQ(describe(barrier("a\n\xFF\"")), "barrier \"a??\"\" (generation 0, sequence 0)");
}

}  // namespace
}  // namespace c10dd::core
