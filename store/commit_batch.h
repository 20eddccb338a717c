// SPDX-License-Identifier: Apache-2.0
// A batch that one caller submits to GroupCommit, and its result.
#pragma once

#include <cstdint>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// Contains changes that the engine is to commit, and ownerships that it is to confirm. A caller
/// numbers its batches in ascending order.
struct CommitBatch {
  std::uint64_t number = 0;
  std::vector<JobBatch> jobs;
  std::vector<Ownership> confirms;
};

struct CommitResult {
  std::uint64_t number = 0;   ///< CommitBatch::number
  std::vector<Outcome> jobs;  ///< one for each of CommitBatch::jobs
  /// One outcome for each of CommitBatch::confirms. The engine checked the ownerships
  /// only after submit() was called.
  std::vector<Outcome> confirms;
  Duration took{0};      ///< duration of the engine calls for this batch
  std::string why = {};  ///< Engine::Outcomes::why
};

}  // namespace c10dd::store
