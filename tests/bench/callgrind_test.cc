// SPDX-License-Identifier: Apache-2.0
// What is read from a profile of callgrind.
#include "tests/bench/callgrind.h"

#include <gtest/gtest.h>

#include <sstream>

namespace c10dd::bench {
namespace {

TEST(Callgrind, CountsAFunctionWithoutTheCallsThatItMakes) {
  std::istringstream profile(
      "events: Ir\nsummary: 450\n\n"
      "ob=/usr/lib/libc.so.6\nfl=malloc.c\nfn=malloc\n10 7\n11 3\n\n"
      "ob=/opt/bin/c10dd\nfl=???\nfn=main\n0 5\ncob=/usr/lib/libc.so.6\ncfn=malloc\ncalls=2 10\n"
      "0 20\n0 1\n\nfn=malloc\n0 2\n\n"
      "ob=/usr/lib/libc.so.6\nfn=malloc\n12 1\n");
  const std::vector<FunctionCost> costs = read_costs(profile);
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(costs[0].library + " " + costs[0].function, "c10dd main");
  EXPECT_EQ(costs[0].instructions, 6u);
  EXPECT_EQ(costs[1].library + " " + costs[1].function, "c10dd malloc");
  EXPECT_EQ(costs[1].instructions, 2u);
  EXPECT_EQ(costs[2].library + " " + costs[2].function, "libc.so.6 malloc");
  EXPECT_EQ(costs[2].instructions, 11u);
}

TEST(Callgrind, RefusesAProfileWithoutCosts) {
  std::istringstream profile("fn=main\n17\n");
  EXPECT_THROW(read_costs(profile), std::runtime_error);
}

TEST(Callgrind, SaysWhenAProcessDoesNotRunUnderValgrind) {
  EXPECT_THROW(Callgrind().zero(1), std::runtime_error);
}

}  // namespace
}  // namespace c10dd::bench
