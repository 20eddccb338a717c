// SPDX-License-Identifier: Apache-2.0
// What one caller wants of an engine at once, and what came of it.
#pragma once

#include <cstdint>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// What one caller wants made durable or confirmed. Numbers are the caller's own, ascending.
struct CommitBatch {
  std::uint64_t number = 0;
  std::vector<JobBatch> jobs;
  std::vector<Ownership> confirms;
};

struct CommitResult {
  std::uint64_t number = 0;
  std::vector<Outcome> jobs;      ///< as CommitBatch::jobs
  std::vector<Outcome> confirms;  ///< as CommitBatch::confirms; evidence newer than submit()
  Duration took{0};               ///< the engine call that carried this batch
};

}  // namespace c10dd::store
