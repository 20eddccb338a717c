// SPDX-License-Identifier: Apache-2.0
// Runs seeds in worker processes, so that a failed assertion costs one seed and names it.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/sim/plants.h"
#include "tests/sim/simulation.h"

namespace c10dd::sim {

struct Range {
  std::uint64_t from = 1;
  std::uint64_t count = 1;
  unsigned jobs = 1;  ///< worker processes
  AnyPlant plant = Plant::none;
};

/// Simulates one seed in this process. Every 50th seed runs twice, and the hashes must be equal.
Report run_seed(std::uint64_t seed);

/// Calls on_report once per seed, in no fixed order. Stops when on_report returns false.
void run_seeds(const Range& range, const std::function<bool(const Report&)>& on_report);

}  // namespace c10dd::sim
