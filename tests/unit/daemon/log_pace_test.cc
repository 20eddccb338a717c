// SPDX-License-Identifier: Apache-2.0
// The number of log lines per second is limited, and the skipped ones are counted.
#include <gtest/gtest.h>

#include "daemon/shard/event_log.h"

namespace c10dd::daemon {
namespace {

TEST(LogPace, LeavesOutWhatIsTooMuchInASecondAndSaysHowMuch) {
  LogPace pace;
  LogPace::Time now{};
  for (unsigned i = 0; i < LogPace::kLines; ++i) EXPECT_EQ(pace.next(now), 0u);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(pace.next(now), std::nullopt);
  now += std::chrono::seconds(1);
  EXPECT_EQ(pace.next(now), 5u);
  EXPECT_EQ(pace.next(now), 0u);
}

}  // namespace
}  // namespace c10dd::daemon
