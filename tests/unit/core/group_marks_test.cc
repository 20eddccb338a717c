// SPDX-License-Identifier: Apache-2.0
// What follows from the marks of the ranks of a group: who has issued other collectives, and who
// comes late. Ranks that lie, are silent or report late accuse nobody.
#include "daemon/core/reports/group_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kMarksStart{1h};
using Ranks = std::vector<Rank>;

/// A group whose ranks mark every 2 s, and report now and then.
class MarkedGroup {
 public:
  explicit MarkedGroup(Rank size, std::uint64_t every = 64)
      : marks(size), every_(every), waited_(size) {}

  /// Lets all ranks go on to the next mark. `waited` says how long each has waited.
  void go_on(const std::vector<Duration>& waited, Duration time = 2s) {
    clock_ += time;
    sequence_ += every_;
    for (std::size_t rank = 0; rank < waited_.size(); ++rank) waited_[rank] += waited[rank];
  }
  TimeMark mark_of(Rank rank) const {
    // The clocks of the ranks have nothing in common.
    return {sequence_, clock_ + rank * 1000s, waited_[rank]};
  }
  void tell(Rank rank, Duration at) { marks.add(rank, {}, {{mark_of(rank)}}, kMarksStart + at); }
  void tell_all(Duration at) {
    for (Rank rank = 0; rank < waited_.size(); ++rank) tell(rank, at);
  }
  /// Lets all ranks go on by so many marks, and report each.
  void run(int steps, const std::vector<Duration>& waited) {
    for (int i = 0; i < steps; ++i) {
      go_on(waited);
      tell_all(clock_);
    }
  }
  Ranks late() const { return late(clock_); }
  Ranks late(Duration at) const {
    const auto found = marks.stragglers(kMarksStart + at);
    return found ? found->ranks : Ranks{};
  }
  Duration clock() const { return clock_; }

  GroupMarks marks;

 private:
  const std::uint64_t every_;  // collectives between two marks
  Duration clock_{0};
  std::uint64_t sequence_ = 0;
  std::vector<Duration> waited_;
};

void mark_hash(GroupMarks& marks, Rank rank, std::uint64_t sequence, std::uint64_t hash,
               Duration at = 1s) {
  marks.add(rank, {{{sequence, hash}}}, {}, kMarksStart + at);
}

// ---- different collectives ---------------------------------------------------------------------

TEST(GroupMarks, FindTheFirstDifferenceAndTheRanksOfTheFewer) {
  GroupMarks marks(4);
  for (const std::uint64_t sequence : {64, 128, 192}) {
    for (Rank rank = 0; rank < 4; ++rank) {
      const bool other = rank == 2 && sequence > 128;
      mark_hash(marks, rank, sequence, other ? 9 : sequence);
    }
  }
  const auto found = marks.diverged(kMarksStart + 1s);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->from, 128u);
  EXPECT_EQ(found->to, 192u);
  EXPECT_EQ(found->since, kMarksStart + 1s);
  EXPECT_EQ(found->ranks, Ranks{2});
  EXPECT_EQ(found->others, (Ranks{0, 1, 3}));
  mark_hash(marks, 0, 256, 1);
  EXPECT_EQ(marks.diverged(kMarksStart + 24h)->to, 192u) << "it stays the first";
}

TEST(GroupMarks, NameTheFewerAlthoughOneOfThemHasMarkedFirst) {
  GroupMarks marks(3);
  mark_hash(marks, 1, 64, 9);
  mark_hash(marks, 0, 64, 5);
  EXPECT_FALSE(marks.diverged(kMarksStart + 1s)) << "of two ranks nobody knows which is wrong";
  mark_hash(marks, 2, 64, 5);
  EXPECT_EQ(marks.diverged(kMarksStart + 1s)->ranks, Ranks{1});
  EXPECT_EQ(marks.diverged(kMarksStart + 1s)->from, 0u);
}

TEST(GroupMarks, DoNotWaitForARankThatDoesNotMark) {
  GroupMarks marks(3);
  mark_hash(marks, 1, 64, 9);
  mark_hash(marks, 0, 64, 5);
  EXPECT_FALSE(marks.diverged(kMarksStart + 1s + GroupMarks::kAllMark - 1ns));
  const auto found = marks.diverged(kMarksStart + 1s + GroupMarks::kAllMark);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, Ranks{1}) << "of halves, the one without the lowest rank";
  EXPECT_EQ(found->others, Ranks{0});
}

TEST(GroupMarks, JudgeByTheFirstSequenceThatAllHaveMarked) {
  GroupMarks marks(5);
  mark_hash(marks, 3, 48, 5);
  mark_hash(marks, 0, 48, 9);  // the others mark every second sequence only
  EXPECT_FALSE(marks.diverged(kMarksStart + 24h)) << "two of five decide nothing";
  for (Rank rank = 0; rank < 5; ++rank) mark_hash(marks, rank, 64, rank == 0 ? 10 : 6, 3s);
  const auto found = marks.diverged(kMarksStart + 3s);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, Ranks{0});
  EXPECT_EQ(found->others, (Ranks{1, 2, 3, 4}));
  EXPECT_EQ(found->to, 48u);
  EXPECT_EQ(found->since, kMarksStart + 1s);
}

TEST(GroupMarks, TakeTheLowestOfSeveralMarksOfOneReport) {
  GroupMarks marks(2);
  marks.add(0, {{{192, 3}, {64, 1}, {128, 2}}}, {}, kMarksStart);
  marks.add(1, {{{192, 9}, {128, 9}, {64, 1}}}, {}, kMarksStart);
  EXPECT_EQ(marks.diverged(kMarksStart)->from, 64u);
  EXPECT_EQ(marks.diverged(kMarksStart)->to, 128u);
}

TEST(GroupMarks, IgnoreAMarkThatIsRepeatedOrTooOld) {
  GroupMarks marks(2);
  mark_hash(marks, 0, 64, 1);
  mark_hash(marks, 0, 64, 2);
  EXPECT_FALSE(marks.deviates()) << "one rank does not differ from itself";
  for (std::uint64_t i = 2; i < 20; ++i) mark_hash(marks, 0, 64 * i, 1);
  mark_hash(marks, 1, 64, 9);
  EXPECT_FALSE(marks.deviates());
  mark_hash(marks, 1, 64 * 19, 9);
  EXPECT_TRUE(marks.deviates());
}

TEST(GroupMarks, MeetAlthoughRanksMarkAtDifferentPowersOfTwo) {
  GroupMarks marks(2);
  for (std::uint64_t i = 1; i <= 12; ++i) {
    mark_hash(marks, 0, 64 * i, 64 * i);
    if (i % 4 == 0) mark_hash(marks, 1, 64 * i, i == 12 ? 9 : 64 * i);
  }
  EXPECT_EQ(marks.diverged(kMarksStart + 1s)->to, 64u * 12);
  EXPECT_EQ(marks.diverged(kMarksStart + 1s)->from, 64u * 8);
}

// ---- stragglers --------------------------------------------------------------------------------

TEST(GroupMarks, FindTheRankForWhichTheOthersWait) {
  MarkedGroup group(4);
  group.run(3, {400ms, 400ms, 10ms, 390ms});
  EXPECT_EQ(group.late(), Ranks{}) << "4 s are no window";
  group.run(1, {400ms, 400ms, 10ms, 390ms});
  EXPECT_EQ(group.late(), Ranks{2});
  const TimePoint since = group.marks.stragglers(kMarksStart + group.clock())->since;
  group.run(5, {400ms, 400ms, 10ms, 390ms});
  EXPECT_EQ(group.late(), Ranks{2});
  EXPECT_EQ(group.marks.stragglers(kMarksStart + group.clock())->since, since);
}

TEST(GroupMarks, DoNotCallATenthOfTheTimeLate) {
  MarkedGroup group(4);
  group.run(6, {200ms, 210ms, 10ms, 190ms});
  EXPECT_EQ(group.late(), Ranks{});
  group.run(6, {240ms, 240ms, 10ms, 240ms});
  EXPECT_EQ(group.late(), Ranks{2});
}

TEST(GroupMarks, CallAtMostHalfOfTheRanksLate) {
  MarkedGroup pair(2);
  pair.run(6, {0ms, 1s});
  EXPECT_EQ(pair.late(), Ranks{0});
  MarkedGroup half(4);
  half.run(6, {0ms, 0ms, 1s, 1s});
  EXPECT_EQ(half.late(), (Ranks{0, 1}));
  MarkedGroup most(5);
  most.run(6, {0ms, 0ms, 0ms, 1s, 1s});
  EXPECT_EQ(most.late(), Ranks{}) << "two ranks wait, for example for each other";
}

TEST(GroupMarks, CallARankThatPausesOnceNotLate) {
  MarkedGroup group(4);
  group.run(4, {10ms, 10ms, 10ms, 10ms});
  group.go_on({5s, 10ms, 5s, 5s}, 7s);
  group.tell_all(group.clock());
  EXPECT_EQ(group.late(), Ranks{});
  group.run(4, {10ms, 10ms, 10ms, 10ms});
  EXPECT_EQ(group.late(), Ranks{});
}

TEST(GroupMarks, JudgeNothingFromAFewCollectives) {
  MarkedGroup group(3, 1);
  group.run(8, {0ms, 1s, 1s});
  EXPECT_EQ(group.late(), Ranks{});
}

TEST(GroupMarks, FindOneRankAfterTheOther) {
  MarkedGroup group(3);
  group.run(6, {0ms, 1s, 1s});
  EXPECT_EQ(group.late(), Ranks{0});
  group.run(6, {1s, 1s, 0ms});
  EXPECT_EQ(group.late(), Ranks{2});
  EXPECT_GT(group.marks.stragglers(kMarksStart + group.clock())->since, kMarksStart + 12s);
}

TEST(GroupMarks, ForgetARankThatIsNotLateAnyMore) {
  MarkedGroup group(3);
  group.run(6, {0ms, 1s, 1s});
  group.run(6, {10ms, 10ms, 10ms});
  EXPECT_EQ(group.late(), Ranks{});
  EXPECT_FALSE(group.marks.deviates());
}

TEST(GroupMarks, ForgetTheStragglerOfAGroupThatStands) {
  MarkedGroup group(3);
  group.run(4, {0ms, 1s, 1s});
  EXPECT_EQ(group.late(group.clock() + 3 * 6s), Ranks{0});
  EXPECT_EQ(group.late(group.clock() + 3 * 6s + 1ns), Ranks{});
}

TEST(GroupMarks, NeedTheMarksOfAllRanks) {
  MarkedGroup group(4);
  for (int i = 0; i < 8; ++i) {
    group.go_on({1s, 1s, 0ms, 1s});
    for (const Rank rank : {0, 1, 2}) group.tell(rank, group.clock());
  }
  EXPECT_EQ(group.late(), Ranks{}) << "a rank is silent";
}

TEST(GroupMarks, TakeMarksThatCome5sLate) {
  MarkedGroup group(3);
  std::vector<std::vector<TimeMark>> kept(3);
  for (int step = 1; step <= 12; ++step) {
    group.go_on({1s, 1s, 0ms});
    for (Rank rank = 0; rank < 3; ++rank) {
      kept[rank].push_back(group.mark_of(rank));
      if (step % 3 != static_cast<int>(rank)) continue;  // every 6 s, each at its own time
      group.marks.add(rank, {}, kept[rank], kMarksStart + group.clock());
      kept[rank].clear();
    }
  }
  EXPECT_EQ(group.late(), Ranks{2});
}

TEST(GroupMarks, BelieveNoClockThatSaysSomethingElseThanTheOthers) {
  MarkedGroup group(3);
  for (int i = 0; i < 8; ++i) {
    group.go_on({1s, 1s, 0ms});
    for (const Rank rank : {0, 1}) group.tell(rank, group.clock());
    TimeMark mark = group.mark_of(2);
    mark.clock = mark.clock * 5;
    group.marks.add(2, {}, {{mark}}, kMarksStart + group.clock());
  }
  EXPECT_EQ(group.late(), Ranks{});
  MarkedGroup liar(3);  // it waits for longer than the time that has passed
  liar.run(8, {0ms, 10s, 10s});
  EXPECT_EQ(liar.late(), Ranks{});
}

TEST(GroupMarks, CompareAtMostOnceASecondAndThenWithTheNextReport) {
  MarkedGroup group(3);
  group.run(1, {0ms, 0ms, 0ms});
  for (int i = 0; i < 3; ++i) {
    group.go_on({0ms, 1s, 1s});
    group.tell_all(2s + i * 300ms);
  }
  EXPECT_EQ(group.late(3s), Ranks{}) << "all came within a second";
  group.go_on({0ms, 1s, 1s});
  group.tell(1, 4s);
  EXPECT_EQ(group.late(4s), Ranks{0}) << "although not all have this mark";
}

TEST(GroupMarks, ForgetTheMarksOfARankThatAnotherProcessHas) {
  MarkedGroup group(3);
  group.run(3, {0ms, 1s, 1s});
  mark_hash(group.marks, 0, 64, 1);
  group.marks.forget(0);
  mark_hash(group.marks, 0, 64, 2);
  EXPECT_FALSE(group.marks.deviates());
  group.run(2, {0ms, 1s, 1s});
  EXPECT_EQ(group.late(), Ranks{}) << "its window begins anew";
}

TEST(GroupMarks, TakeAnyMarksWithoutHarm) {
  std::mt19937_64 random(3);
  const std::uint64_t numbers[] = {0, 1, 64, 128, 1'000'000, ~std::uint64_t{0}};
  const Duration times[] = {0ns, 1ns, 1s, 6s, 24h * 365, 24h * 3650};
  for (int round = 0; round < 200; ++round) {
    const Rank size = 2 + random() % 4;
    GroupMarks marks(size);
    for (int i = 0; i < 100; ++i) {
      const Rank rank = random() % size;
      const TimePoint now = kMarksStart + i * 500ms;
      marks.add(rank, {{{numbers[random() % 6], random() % 2}}},
                {{{numbers[random() % 6], times[random() % 6], times[random() % 6]}}}, now);
      if (random() % 20 == 0) marks.forget(random() % size);
      if (const auto found = marks.diverged(now)) {
        ASSERT_FALSE(found->others.empty());
        ASSERT_LE(found->ranks.size() + found->others.size(), size);
      }
      const auto late = marks.stragglers(now);
      ASSERT_LE(late ? late->ranks.size() * 2 : 0, size);
    }
  }
}

}  // namespace
}  // namespace c10dd::core
