// SPDX-License-Identifier: Apache-2.0
// The commit waits for the clients that just got a reply, for at most half a batch, and does not
// wait for a while after waiting was in vain.
#include "daemon/core/host/commit_pace.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;

const CommitPace::Time kPaceStart{};

TEST(CommitPace, WaitsUntilAllWhoWereAnsweredAreBack) {
  CommitPace pace;
  pace.ended(kPaceStart, milliseconds(2), 50, 50);
  EXPECT_EQ(pace.until(), kPaceStart + milliseconds(1));
  EXPECT_FALSE(pace.ready(kPaceStart, 50));
  EXPECT_FALSE(pace.ready(kPaceStart, 99));
  EXPECT_TRUE(pace.ready(kPaceStart, 100));
  EXPECT_EQ(pace.until(), std::nullopt);
}

TEST(CommitPace, GoesAfterHalfARoundAtTheLatestAndNeverAfterMoreThanItsBound) {
  CommitPace pace;
  pace.ended(kPaceStart, milliseconds(2), 50, 50);
  EXPECT_FALSE(pace.ready(kPaceStart + milliseconds(1) - Duration(1), 80));
  EXPECT_TRUE(pace.ready(kPaceStart + milliseconds(1), 80));
  pace.ended(kPaceStart, std::chrono::seconds(1), 50, 50);
  EXPECT_EQ(pace.until(), kPaceStart + CommitPace::kLongestWait);
}

TEST(CommitPace, ALoneClientNeverWaits) {
  CommitPace pace;
  pace.ended(kPaceStart, milliseconds(2), 1, 0);
  EXPECT_TRUE(pace.ready(kPaceStart, 1));
}

TEST(CommitPace, ReadsAndOthersThatWereNotAnsweredDoNotCountAsBack) {
  CommitPace pace;
  pace.ended(kPaceStart, milliseconds(2), 4, 10);
  EXPECT_FALSE(pace.ready(kPaceStart, 13));
  EXPECT_TRUE(pace.ready(kPaceStart, 14));
}

TEST(CommitPace, WhatWasInVainIsTriedAgainAfterLongerAndLongerRests) {
  CommitPace pace;
  for (std::size_t rest = CommitPace::kFirstRest; rest <= 2 * CommitPace::kLongestRest; rest *= 2) {
    pace.ended(kPaceStart, milliseconds(2), 50, 50);
    ASSERT_FALSE(pace.ready(kPaceStart, 50));
    ASSERT_TRUE(pace.ready(kPaceStart + milliseconds(1), 60));  // a fifth of them has come
    for (std::size_t batch = 0; batch < std::min(rest, CommitPace::kLongestRest); ++batch) {
      pace.ended(kPaceStart, milliseconds(2), 50, 50);
      ASSERT_TRUE(pace.ready(kPaceStart, 50)) << rest << ' ' << batch;
    }
  }
}

TEST(CommitPace, OneThatPaidEndsTheRests) {
  CommitPace pace;
  pace.ended(kPaceStart, milliseconds(2), 50, 50);
  ASSERT_TRUE(pace.ready(kPaceStart + milliseconds(1), 50));
  for (std::size_t batch = 0; batch < CommitPace::kFirstRest; ++batch) {
    pace.ended(kPaceStart, milliseconds(2), 50, 50);
  }
  for (int batch = 0; batch < 3; ++batch) {
    pace.ended(kPaceStart, milliseconds(2), 50, 50);
    ASSERT_FALSE(pace.ready(kPaceStart, 50)) << batch;
    ASSERT_TRUE(pace.ready(kPaceStart, 100)) << batch;
  }
}

}  // namespace
}  // namespace c10dd::core
