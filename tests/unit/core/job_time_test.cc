// SPDX-License-Identifier: Apache-2.0
// Job time moves as the clock does, but neither a pause nor a drain lets it run.
#include "daemon/core/host/job_time.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;

TEST(JobTime, MovesWithTheClockAndAtMostAQuarterSecondInATurn) {
  SteadyTime clock;
  JobTime time(clock);
  const TimePoint start = time.now(clock);
  clock += milliseconds(20);
  EXPECT_EQ(time.now(clock), start + milliseconds(20));
  EXPECT_EQ(time.end_turn(clock), start + milliseconds(20));
  clock += std::chrono::hours(1);
  EXPECT_EQ(time.now(clock), start + milliseconds(270));
  EXPECT_EQ(time.end_turn(clock), start + milliseconds(270));
  clock += milliseconds(1);
  EXPECT_EQ(time.end_turn(clock), start + milliseconds(271));
}

TEST(JobTime, StandsStill) {
  SteadyTime clock;
  JobTime time(clock);
  const TimePoint start = time.now(clock);
  clock += milliseconds(5);
  time.stand_still(clock);
  clock += milliseconds(5);
  EXPECT_EQ(time.now(clock), start + milliseconds(5));
  EXPECT_EQ(time.end_turn(clock), start + milliseconds(5));
  clock += milliseconds(5);
  EXPECT_EQ(time.end_turn(clock), start + milliseconds(5));
}

}  // namespace
}  // namespace c10dd::core
