// SPDX-License-Identifier: Apache-2.0
// Job time moves as the clock does, but neither a pause nor a drain lets it run.
#include "daemon/shard/job_time.h"

#include <gtest/gtest.h>

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

std::chrono::steady_clock::time_point clock_now;
std::chrono::steady_clock::time_point read_clock() { return clock_now; }

TEST(JobTime, MovesWithTheClockAndAtMostAQuarterSecondInATurn) {
  JobTime time(read_clock);
  const TimePoint start = time.now();
  clock_now += milliseconds(20);
  EXPECT_EQ(time.now(), start + milliseconds(20));
  EXPECT_EQ(time.end_turn(), start + milliseconds(20));
  clock_now += std::chrono::hours(1);
  EXPECT_EQ(time.now(), start + milliseconds(270));
  EXPECT_EQ(time.end_turn(), start + milliseconds(270));
  clock_now += milliseconds(1);
  EXPECT_EQ(time.end_turn(), start + milliseconds(271));
}

TEST(JobTime, StandsStill) {
  JobTime time(read_clock);
  const TimePoint start = time.now();
  clock_now += milliseconds(5);
  time.stand_still();
  clock_now += milliseconds(5);
  EXPECT_EQ(time.now(), start + milliseconds(5));
  EXPECT_EQ(time.end_turn(), start + milliseconds(5));
  clock_now += milliseconds(5);
  EXPECT_EQ(time.end_turn(), start + milliseconds(5));
}

}  // namespace
}  // namespace c10dd::daemon
