// SPDX-License-Identifier: Apache-2.0
// What the ranks do on a real GPU. Each rank is a process.
#pragma once

#include <string_view>

#include "protocol/types.h"

namespace c10dd::gpu {

struct Scenario {
  std::string_view name;
  Rank ranks;
  Rank killed;    ///< the rank that ends by SIGKILL, or `ranks`
  void (*run)();  ///< throws if something is wrong; rank and daemon come from the environment
};

/// All scenarios, in the order in which they are run.
inline constexpr std::size_t kScenarios = 14;
extern const Scenario kScenarioList[kScenarios];

// In failures.cc and pace.cc.
void abort_a_group();
void abort_many_groups();
void stay_away();
void kill_a_rank();
void stop_a_rank();
void pace();

}  // namespace c10dd::gpu
