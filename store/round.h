// SPDX-License-Identifier: Apache-2.0
// What one caller wants of an engine at once, and what came of it.
#pragma once

#include <cstdint>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// What one caller wants made durable or confirmed. Numbers are the caller's own, ascending.
struct Round {
  std::uint64_t number = 0;
  std::vector<JobBatch> batches;
  std::vector<Ownership> confirms;
};

struct RoundResult {
  std::uint64_t number = 0;
  std::vector<Outcome> batches;   ///< as Round::batches
  std::vector<Outcome> confirms;  ///< as Round::confirms; evidence newer than submit()
  Duration took{0};               ///< the engine call that carried this round
};

}  // namespace c10dd::store
