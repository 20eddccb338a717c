// SPDX-License-Identifier: Apache-2.0
// Who was just answered is waited for, at most half a round, and not where it proved vain.
#include "daemon/core/host/round_pace.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;

const RoundPace::Time kStart{};

TEST(RoundPace, WaitsUntilAllWhoWereAnsweredAreBack) {
  RoundPace pace;
  pace.ended(kStart, milliseconds(2), 50, 50);
  EXPECT_EQ(pace.until(), kStart + milliseconds(1));
  EXPECT_FALSE(pace.ready(kStart, 50));
  EXPECT_FALSE(pace.ready(kStart, 99));
  EXPECT_TRUE(pace.ready(kStart, 100));
  EXPECT_EQ(pace.until(), std::nullopt);
}

TEST(RoundPace, GoesAfterHalfARoundAtTheLatestAndNeverAfterMoreThanItsBound) {
  RoundPace pace;
  pace.ended(kStart, milliseconds(2), 50, 50);
  EXPECT_FALSE(pace.ready(kStart + milliseconds(1) - Duration(1), 80));
  EXPECT_TRUE(pace.ready(kStart + milliseconds(1), 80));
  pace.ended(kStart, std::chrono::seconds(1), 50, 50);
  EXPECT_EQ(pace.until(), kStart + RoundPace::kLongestWait);
}

TEST(RoundPace, ALoneClientNeverWaits) {
  RoundPace pace;
  pace.ended(kStart, milliseconds(2), 1, 0);
  EXPECT_TRUE(pace.ready(kStart, 1));
}

TEST(RoundPace, ReadsAndOthersThatWereNotAnsweredDoNotCountAsBack) {
  RoundPace pace;
  pace.ended(kStart, milliseconds(2), 4, 10);
  EXPECT_FALSE(pace.ready(kStart, 13));
  EXPECT_TRUE(pace.ready(kStart, 14));
}

TEST(RoundPace, WhatWasInVainIsTriedAgainAfterLongerAndLongerRests) {
  RoundPace pace;
  for (std::size_t rest = RoundPace::kFirstRest; rest <= 2 * RoundPace::kLongestRest; rest *= 2) {
    pace.ended(kStart, milliseconds(2), 50, 50);
    ASSERT_FALSE(pace.ready(kStart, 50));
    ASSERT_TRUE(pace.ready(kStart + milliseconds(1), 60));  // a fifth of them has come
    for (std::size_t round = 0; round < std::min(rest, RoundPace::kLongestRest); ++round) {
      pace.ended(kStart, milliseconds(2), 50, 50);
      ASSERT_TRUE(pace.ready(kStart, 50)) << rest << ' ' << round;
    }
  }
}

TEST(RoundPace, OneThatPaidEndsTheRests) {
  RoundPace pace;
  pace.ended(kStart, milliseconds(2), 50, 50);
  ASSERT_TRUE(pace.ready(kStart + milliseconds(1), 50));
  for (std::size_t round = 0; round < RoundPace::kFirstRest; ++round) {
    pace.ended(kStart, milliseconds(2), 50, 50);
  }
  for (int round = 0; round < 3; ++round) {
    pace.ended(kStart, milliseconds(2), 50, 50);
    ASSERT_FALSE(pace.ready(kStart, 50)) << round;
    ASSERT_TRUE(pace.ready(kStart, 100)) << round;
  }
}

}  // namespace
}  // namespace c10dd::core
