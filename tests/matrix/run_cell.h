// SPDX-License-Identifier: Apache-2.0
// Runs one cell on one rank, and checks what this rank has got.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/process_group.h"
#include "tests/matrix/cells.h"

namespace c10dd::matrix {

struct Outcome {
  std::string wrong;       ///< what is wrong, or empty
  std::uint64_t hash = 0;  ///< of a result that all ranks must have bit by bit, else 0
};

/// Runs the cell in `group`, which has cell.ranks ranks. The inputs depend on `seed` only. An
/// exception of the group is passed on.
Outcome run_cell(ProcessGroup& group, const Cell& cell, std::uint64_t seed);

}  // namespace c10dd::matrix
