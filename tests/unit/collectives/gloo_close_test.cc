// SPDX-License-Identifier: Apache-2.0
// A rank closes its Gloo group as soon as it has done its part, while others still wait for each
// other.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using test::open_groups;

TEST(GlooClose, ARankThatHasDoneItsPartMayCloseItsGroup) {
  constexpr Rank kSize = 3;
  auto groups = open_groups(kSize, {.backend = "gloo", .timeout = std::chrono::seconds(10)});
  std::vector<std::vector<float>> inputs(kSize, std::vector<float>(kSize, 1.0F));
  std::vector<std::vector<float>> outputs(kSize, std::vector<float>(kSize));
  // Ranks 1 and 2 have nothing for each other: rank 1 ends before rank 2 begins, for which rank 0
  // waits meanwhile.
  const auto call = [&](Rank rank) {
    std::vector<Tensor> in;
    std::vector<Tensor> out;
    for (Rank other = 0; other < kSize; ++other) {
      const std::size_t count = rank == 0 || other == 0 || rank == other ? 1 : 0;
      in.push_back(tensor_of(inputs[rank].data() + other, count));
      out.push_back(tensor_of(outputs[rank].data() + other, count));
    }
    return groups[rank]->all_to_all(out, in, {.async = true});
  };
  const WorkPtr first = call(0);
  call(1)->wait();
  groups[1].reset();
  EXPECT_THROW(first->wait(std::chrono::milliseconds(1500)), TimedOut);
  call(2)->wait();
  first->wait();
  EXPECT_EQ(outputs[0], inputs[0]);
}

}  // namespace
}  // namespace c10dd
