// SPDX-License-Identifier: Apache-2.0
// What one caller asks of an engine at once, and the result.
#pragma once

#include <cstdint>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// Changes to make durable and claims to confirm. `number` is the caller's own and ascends.
struct CommitBatch {
  std::uint64_t number = 0;
  std::vector<JobBatch> jobs;
  std::vector<Ownership> confirms;
};

struct CommitResult {
  std::uint64_t number = 0;   ///< CommitBatch::number
  std::vector<Outcome> jobs;  ///< one for each of CommitBatch::jobs
  /// One for each of CommitBatch::confirms, by evidence newer than submit().
  std::vector<Outcome> confirms;
  Duration took{0};  ///< duration of the engine call that had this batch
};

}  // namespace c10dd::store
