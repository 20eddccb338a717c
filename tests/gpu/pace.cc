// SPDX-License-Identifier: Apache-2.0
// How long an all_reduce takes on a GPU, for docs/results.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/gpu/scenarios.h"
#include "tests/gpu/world.h"

namespace c10dd::gpu {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

/// Prints medians: of the time that the host needs to issue an all_reduce, and of the time until
/// the host has seen its end.
void pace() {
  World world;
  for (const std::size_t bytes : {4UL, 1UL << 20, 64UL << 20}) {
    const Tensor tensor = world.gpu.put(std::vector<float>(bytes / 4, 1.0f), DType::float32);
    std::vector<double> issue, end;
    for (int round = 0; round < 60; ++round) {
      const auto begin = Clock::now();
      const WorkPtr work = world.group->all_reduce(tensor, ReduceOp::max);
      const double issued = seconds_since(begin);
      work->wait_on_host();
      if (round < 10) continue;  // warms up
      issue.push_back(issued * 1e6);
      end.push_back(seconds_since(begin) * 1e6);
    }
    if (world.group->rank() == 0) {
      std::printf("  %9zu bytes: issued after %.1f us, ended after %.1f us\n", bytes, median(issue),
                  median(end));
    }
  }
}

}  // namespace c10dd::gpu
