// SPDX-License-Identifier: Apache-2.0
// One rank of a run of the matrix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/matrix/cells.h"

namespace c10dd::matrix {

/// What all ranks of a run must know.
struct Plan {
  std::string backend;
  std::vector<Cell> cells;
  std::uint64_t seed = 0;
  std::optional<std::size_t> fault = {};  ///< an index into kFaults
};

/// Returns whether the plan has cells whose ranks are of this kind.
bool has_ranks_as(const Plan& plan, RanksAs ranks);

/// One of the kRanksMax ranks of a kind runs its part of the cells of that kind. Writes a line for
/// each to a file in `directory`: number of the cell, hash, and what is wrong.
void run_rank(const Plan& plan, RanksAs ranks, const std::shared_ptr<Client>& client, Rank rank,
              const std::filesystem::path& directory);

/// What a run has found.
struct Result {
  std::vector<std::string> wrong;  ///< for each cell what is wrong, or empty
  std::string describe;            ///< ProcessGroup::describe()
};

/// Reads what the ranks have written. A cell is wrong if a rank says so, if it lacks a rank, or if
/// the ranks have different hashes.
Result collect(const Plan& plan, const std::filesystem::path& directory);

}  // namespace c10dd::matrix
