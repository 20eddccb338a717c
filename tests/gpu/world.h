// SPDX-License-Identifier: Apache-2.0
// What each scenario on a GPU begins with: a group of all ranks, and checks that throw.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "client/client.h"
#include "collectives/process_group.h"
#include "tests/gpu/device_values.h"

namespace c10dd::gpu {

using Clock = std::chrono::steady_clock;

inline void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A group of all ranks of the launcher.
struct World {
  World()
      : group(
            ProcessGroup::open(client, {.backend = "nccl", .timeout = std::chrono::seconds(60)})) {
    if (group->rank() == 0) std::printf("  %s\n", group->describe().c_str());
  }
  /// The index of the GPU, which the group has chosen.
  static int index(const ProcessGroup& group) {
    const std::string text = group.describe();
    return std::stoi(text.substr(text.find("cuda:") + 5));
  }

  const std::shared_ptr<Client> client = Client::from_environment();
  const std::shared_ptr<ProcessGroup> group;
  Gpu gpu{index(*group)};
};

}  // namespace c10dd::gpu
