// SPDX-License-Identifier: Apache-2.0
// How fast a client may make new jobs, and that another one does not wait for it.
#include "daemon/core/host/new_job_pace.h"

#include <gtest/gtest.h>

#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;

TEST(NewJobPace, LetsSomeComeAtOnceAndThenSoManyASecond) {
  NewJobPace pace;
  for (int i = 0; i <= limits::kNewJobsAtOnce; ++i) EXPECT_EQ(pace.next("a", at(0)), at(0)) << i;
  EXPECT_EQ(pace.next("a", at(0)), at(0) + milliseconds(10));
  EXPECT_EQ(pace.next("a", at(0)), at(0) + milliseconds(20));
  EXPECT_EQ(pace.next("b", at(0)), at(0)) << "another client";
  EXPECT_EQ(pace.next("a", at(1)), at(1)) << "who waits a while";
}

TEST(NewJobPace, RefusesWhoWouldWaitTooLong) {
  NewJobPace pace;
  int waiting = 0;
  while (pace.next("a", at(0))) ASSERT_LT(++waiting, 10'000);
  EXPECT_EQ(waiting, limits::kNewJobsAtOnce + 1 + 2 * limits::kNewJobsPerSecond);
  EXPECT_FALSE(pace.next("a", at(0)));
  EXPECT_EQ(pace.next("a", at(0) + milliseconds(10)), at(2) + milliseconds(10))
      << "a refusal takes no place";
  EXPECT_EQ(pace.next("a", at(100)), at(100));
}

TEST(NewJobPace, ForgetsClientsThatHaveTheirWholeAllowance) {
  NewJobPace pace;
  while (pace.next("busy", at(0))) {
  }
  for (int i = 0; i < 100'000; ++i) pace.next(std::to_string(i), at(1));
  EXPECT_GT(pace.next("busy", at(1)), at(1)) << "but no other";
}

}  // namespace
}  // namespace c10dd::core
