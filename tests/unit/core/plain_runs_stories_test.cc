// SPDX-License-Identifier: Apache-2.0
// 10,000 stories of launches hold, and find each fault that is planted in PlainRuns. Built with the
// planted faults.
#include <gtest/gtest.h>

#include "tests/unit/core/active_plant.h"
#include "tests/unit/core/launch_stories.h"

namespace c10dd::core {
namespace {

TEST(PlainRunsStories, Hold) {
  active_plant.reset();
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
    const auto wrong = LaunchStory(seed).tell();
    ASSERT_FALSE(wrong) << "seed " << seed << ": " << *wrong;
  }
}

class PlainRunsFault : public testing::TestWithParam<Planted> {};

TEST_P(PlainRunsFault, IsFound) {
  active_plant = GetParam();
  std::optional<std::string> wrong;
  for (std::uint64_t seed = 1; seed <= 200 && !wrong; ++seed) wrong = LaunchStory(seed).tell();
  active_plant.reset();
  EXPECT_TRUE(wrong);
}

INSTANTIATE_TEST_SUITE_P(Each, PlainRunsFault,
                         testing::Values(Planted::join_end_forgotten, Planted::run_opened_early,
                                         Planted::ended_run_kept, Planted::own_run_forgotten,
                                         Planted::clone_to_current, Planted::rank_key_set_again,
                                         Planted::young_run_spared, Planted::quiet_run_closed,
                                         Planted::dead_holder_counts));

}  // namespace

}  // namespace c10dd::core
