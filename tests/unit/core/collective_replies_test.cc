// SPDX-License-Identifier: Apache-2.0
// What ranks are told that go on, but deviate from the others, and ranks whose operation has timed
// out.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/unit/core/activity_run.h"
#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

// ---- ranks that deviate ------------------------------------------------------------------------

class DeviationsTest : public RanksRun {
 protected:
  /// Lets all ranks go on for 2 s, by 64 collectives, and mark them.
  void go_on(const std::vector<Duration>& waited, Rank differs = 99) {
    pass(2s, all_);
    issued_ += 64;
    for (const std::uint64_t n : all_) {
      waited_.resize(all_.size());
      waited_[n - 1] += waited[n - 1];
      GroupActivity told = ended(kDp, issued_);
      told.hash_marks = {{issued_, n - 1 == differs ? 99 : issued_}};
      told.time_marks = {{issued_, now_ - TimePoint{} + n * 1000s, waited_[n - 1]}};
      ask(n, tells({told}));
    }
  }

  std::uint64_t issued_ = 0;
  std::vector<Duration> waited_;
};

TEST_F(DeviationsTest, NameTheRankForWhichTheOthersWait) {
  for (int i = 0; i < 4; ++i) go_on({400ms, 10ms, 400ms, 400ms});
  pass(500ms, all_);
  const std::string late =
      "waiting straggler: group \"dp\" is held up by rank 1 on host-2 (pid 102), which comes late "
      "to its collectives; 3 ranks wait";
  EXPECT_EQ(text(), late);
  const ActivityDiagnosis found = tell(1, Activity{});
  EXPECT_EQ(found.groups, std::vector<std::uint64_t>{kDp});
  EXPECT_TRUE(found.hopeless.empty());
  for (int i = 0; i < 8; ++i) go_on({400ms, 10ms, 400ms, 400ms});
  EXPECT_EQ(text(), late);
  EXPECT_EQ(told_.size(), 1U);
  for (int i = 0; i < 4; ++i) go_on({10ms, 10ms, 10ms, 10ms});
  pass(500ms, all_);
  EXPECT_EQ(text(), "running none: ");
}

TEST_F(DeviationsTest, ForgetTheStragglerOfAJobThatStands) {
  for (int i = 0; i < 4; ++i) go_on({400ms, 10ms, 400ms, 400ms});
  pass(500ms, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::straggler);
  pass(25s, all_);
  EXPECT_EQ(text(), "running none: ");
}

TEST_F(DeviationsTest, SayThatARankHasIssuedOthersAndGoneOn) {
  go_on({0s, 0s, 0s, 0s});
  go_on({0s, 0s, 0s, 0s}, 2);
  pass(500ms, all_);
  EXPECT_EQ(text(),
            "stuck diverged: the collectives of group \"dp\" differ between sequences 64 and 128: "
            "rank 2 on host-3 (pid 103) has issued others than the other ranks");
  go_on({0s, 0s, 0s, 0s});
  EXPECT_EQ(told_.size(), 1U);
  Activity closes;
  closes.closed = {kDp};
  for (const std::uint64_t n : all_) ask(n, closes);
  pass(1s, all_);
  EXPECT_EQ(text(), "running none: ");
}

TEST_F(DeviationsTest, SayTheMismatchIfRanksAreStillInTheCollectives) {
  go_on({0s, 0s, 0s, 0s});
  for (const std::uint64_t n : all_) {
    GroupActivity told = inside(kDp, unfinished(127, 600ms, n == 3 ? "barrier" : "all_reduce"));
    told.hash_marks = {{128, n == 3 ? 99U : 128U}};
    ask(n, tells({told}));
  }
  pass(300ms, all_);
  expect_silence();
  pass(300ms, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::mismatch);
  EXPECT_EQ(told_.size(), 1U);
}

// ---- time-outs ---------------------------------------------------------------------------------

class TimeOutsTest : public RanksRun {
 protected:
  ActivityDiagnosis time_out(std::uint64_t n, std::uint64_t id, Duration age) {
    Activity report = tells({inside(id, unfinished(0, age))});
    report.timed_out = true;
    return tell(n, report);
  }
};

TEST_F(TimeOutsTest, AskForTheCauseBeforeThereIsADiagnosis) {
  for (const std::uint64_t n : all_) tell(n);
  const ActivityDiagnosis found = time_out(1, kDp, 100ms);
  EXPECT_EQ(found.state, 1);
  EXPECT_EQ(
      found.sentence,
      "all_reduce 0 of group \"dp\" waits for ranks [1-3] on host-2, host-3, host-4, which are "
      "connected, but have not issued it; 1 rank waits");
  EXPECT_EQ(found.groups, std::vector<std::uint64_t>{kDp});
  EXPECT_EQ(found.ranks, (std::vector<RankRange>{{1, 3}}));
  EXPECT_EQ(state(), "running") << "for the job it is no diagnosis";
  EXPECT_EQ(time_out(3, kDp, 100ms).sentence, found.sentence) << "it is kept for a moment";
  now_ += 100ms;
  EXPECT_EQ(time_out(3, kDp, 200ms).ranks, (std::vector<RankRange>{{1, 1}, {3, 3}}));
}

TEST_F(TimeOutsTest, GetTheDiagnosisOfTheJobIfThereIsOne) {
  open_group(kTp, "tp", {1, 2});
  issue(2, kTp);
  live(100ms, all_);
  issue(3, kDp);
  issue(4, kDp);
  live(1500ms, all_);
  ASSERT_EQ(diagnosis().ranks, std::vector<Rank>{0});
  EXPECT_EQ(time_out(3, kDp, 1500ms).sentence, sentence());
  EXPECT_EQ(time_out(3, kDp, 1500ms).groups, std::vector<std::uint64_t>{kDp});
}

TEST_F(TimeOutsTest, GetNothingIfNothingIsKnown) {
  const ActivityDiagnosis found = [&] {
    Activity report = tells({ended(kDp, 1)});
    report.timed_out = true;
    return tell(1, report);
  }();
  EXPECT_EQ(found.state, 0);
  EXPECT_TRUE(found.sentence.empty());
  Activity none;
  none.timed_out = true;
  EXPECT_EQ(tell(1, none).state, 0);
}

TEST_F(TimeOutsTest, CostLittleForManyRanks) {
  for (std::uint64_t n = 5; n <= 2'048; ++n) {
    sequence_ = 0;
    open(n);
    all_.push_back(n);
  }
  sequence_ = 0;
  for (std::uint64_t n = 1; n <= all_.size(); ++n) {
    Activity report = opens({opened_group(kPp, static_cast<Rank>(n - 1), 2'048, "world")});
    report.groups = {ended(kPp, 0)};
    sequence_ = 1;
    tell(n, report);
  }
  const std::clock_t began = std::clock();
  for (std::uint64_t n = 1; n < all_.size(); ++n) {
    sequence_ = 2;
    ASSERT_FALSE(time_out(n, kPp, 100ms).groups.empty());
  }
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 2 * test::kSlowdown);
}

}  // namespace
}  // namespace c10dd::core
