// SPDX-License-Identifier: Apache-2.0
// Which diagnoses get a line in the log, and which are only counted.
#include "daemon/shard/diagnosis_pace.h"

#include <gtest/gtest.h>

namespace c10dd::daemon {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using State = Diagnosis::State;
using Kind = Diagnosis::Kind;

class DiagnosisPaceTest : public testing::Test {
 protected:
  static DiagnosisPace::Subject subject(const std::string& job, const std::string& run = "r1",
                                        Kind kind = Kind::missing) {
    return {job, run, kind};
  }

  DiagnosisPace pace_;
  const DiagnosisPace::Time begin_{std::chrono::hours(1)};
};

TEST_F(DiagnosisPaceTest, TheSameKindIsCountedForFiveMinutes) {
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + seconds(1)), std::nullopt);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(5) - seconds(1)),
            std::nullopt);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(5)), 2U);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(9)), std::nullopt)
      << "the five minutes begin with the last line";
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(10)), 1U);
}

TEST_F(DiagnosisPaceTest, AnotherStateAlwaysGetsALine) {
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_), std::nullopt);
  EXPECT_EQ(pace_.next(subject("a"), State::stuck, begin_ + seconds(2)), 1U);
  EXPECT_EQ(pace_.next(subject("a"), State::stuck, begin_ + seconds(3)), std::nullopt);
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + seconds(4)), 1U);
}

TEST_F(DiagnosisPaceTest, JobsRunsAndKindsAreIndependent) {
  EXPECT_EQ(pace_.next(subject("a"), State::stuck, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("b"), State::stuck, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("a", "r2"), State::stuck, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("a", "r1", Kind::lost), State::stuck, begin_), 0U);
  EXPECT_EQ(pace_.next(subject("a"), State::stuck, begin_), std::nullopt);
  EXPECT_TRUE(pace_.ended(subject("a")));
  EXPECT_TRUE(pace_.ended(subject("a", "r2")));
}

TEST_F(DiagnosisPaceTest, AnEndGetsALineIfItsDiagnosisGotOne) {
  EXPECT_FALSE(pace_.ended(subject("a"))) << "of a diagnosis that was never seen";
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_), 0U);
  EXPECT_TRUE(pace_.ended(subject("a")));
  EXPECT_FALSE(pace_.ended(subject("a")));
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(1)), std::nullopt);
  EXPECT_FALSE(pace_.ended(subject("a"))) << "the diagnosis was only counted";
  EXPECT_EQ(pace_.next(subject("a"), State::waiting, begin_ + minutes(6)), 1U);
  EXPECT_TRUE(pace_.ended(subject("a")));
}

TEST_F(DiagnosisPaceTest, AnotherHangOfTheSameKindGetsALineWhenTheLastHasEnded) {
  const auto stuck = [&](const std::string& sentence, int second) {
    return pace_.next(subject("a"), State::stuck, begin_ + seconds(second), {3}, sentence);
  };
  EXPECT_EQ(stuck("one", 0), 0U);
  EXPECT_EQ(stuck("one, and more wait", 1), std::nullopt) << "the same hang";
  EXPECT_TRUE(pace_.ended(subject("a")));
  EXPECT_EQ(stuck("one", 20), std::nullopt) << "it comes again";
  EXPECT_EQ(stuck("two", 40), 2U);
  EXPECT_EQ(pace_.next(subject("b"), State::waiting, begin_, {}, "one"), 0U);
  EXPECT_TRUE(pace_.ended(subject("b")));
  EXPECT_EQ(pace_.next(subject("b"), State::waiting, begin_ + seconds(1), {}, "two"), std::nullopt)
      << "to wait is usual";
}

TEST_F(DiagnosisPaceTest, RemembersSoManySubjectsAndForgetsTheOldestLine) {
  for (std::size_t i = 0; i < DiagnosisPace::kSubjects; ++i) {
    const auto at = begin_ + std::chrono::milliseconds(i);
    EXPECT_EQ(pace_.next(subject(std::to_string(i)), State::stuck, at), 0U);
  }
  const auto later = begin_ + seconds(2);
  EXPECT_EQ(pace_.next(subject("one more"), State::stuck, later), 0U);
  EXPECT_EQ(pace_.next(subject("1"), State::stuck, later), std::nullopt) << "it is remembered";
  EXPECT_FALSE(pace_.ended(subject("0"))) << "it is forgotten";
  EXPECT_EQ(pace_.next(subject("0"), State::stuck, later), 0U) << "it counts as new";
  EXPECT_EQ(pace_.next(subject("1"), State::stuck, later), 0U)
      << "its line was the oldest, so it was forgotten";
}

}  // namespace
}  // namespace c10dd::daemon
