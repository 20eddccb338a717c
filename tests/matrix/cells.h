// SPDX-License-Identifier: Apache-2.0
// The cells of the matrix: every combination of an operation with types, reductions, kinds and
// numbers of ranks, sizes, places and kinds of groups that c10dd allows, and a choice of cells that
// has every pair of values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/operation.h"

namespace c10dd::matrix {

/// An operation, in one of the ways in which its tensors can be given.
enum class Form : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather_single,
  all_gather,
  reduce_scatter_single,
  reduce_scatter,
  gather_single,
  gather,
  scatter_single,
  scatter,
  all_to_all_single,
  all_to_all_splits,  ///< all_to_all_single with parts of different sizes
  all_to_all,
  barrier,
  message,  ///< isend to the next rank and irecv from the previous one
};
inline constexpr std::array<std::string_view, 16> kForms = {
    "all_reduce",         "broadcast",     "reduce",
    "all_gather_single",  "all_gather",    "reduce_scatter_single",
    "reduce_scatter",     "gather_single", "gather",
    "scatter_single",     "scatter",       "all_to_all_single",
    "all_to_all, splits", "all_to_all",    "barrier",
    "send, recv"};

/// Number of elements of a part. The end of a segment is 4096 bytes: up to there the elements of a
/// message travel with its offer, and MPI sends eagerly. Large is more than two of Gloo's segments
/// (1 MiB) for each rank; in operations in which a rank has parts of its own for all ranks, or one
/// rank has those of all, 100,003 elements, which is more than MPI sends at once.
enum class Size : std::uint8_t { none, one, odd, below_segment, segment, above_segment, large };
inline constexpr std::size_t kSizes = 7;

/// What the ranks are: each a process, or all of them threads of one.
enum class RanksAs : std::uint8_t { processes, threads };
constexpr std::string_view name_of(RanksAs ranks) {
  return ranks == RanksAs::threads ? "threads" : "processes";
}

/// How the group was opened.
enum class Opened : std::uint8_t { as_world, by_new_group, by_split };
inline constexpr std::size_t kWays = 3;

inline constexpr Rank kRanksMax = 8;
inline constexpr Rank kLargeRanksMax = 4;  ///< more would need gigabytes
inline constexpr std::uint8_t kNoReduction = kReduceOps;

struct Cell {
  Form form{};
  DType dtype{};
  std::uint8_t reduce = kNoReduction;  ///< a ReduceOp::Kind, or kNoReduction
  Rank ranks = 1;
  Size size{};
  bool in_place = false;
  Opened opened{};
  RanksAs ranks_as{};
  Rank root = 0;  ///< takes turns from cell to cell, if the operation has a root

  std::size_t count() const;  ///< elements of a part
  std::string text() const;
};

/// All cells that c10dd allows over a backend. Large tensors concern what is the same for all ways
/// of opening a group and for most reductions: they have only the first way, and every reduction
/// only of float32.
std::vector<Cell> all_cells(const std::string& backend);

/// Returns cells that have every pair of values that occurs in `all`. The choice depends only on
/// `all` and `seed`.
std::vector<Cell> choose_pairs(const std::vector<Cell>& all, std::uint64_t seed);

/// Returns how many pairs of values occur in `all`, but not in `chosen`.
std::size_t uncovered_pairs(const std::vector<Cell>& all, const std::vector<Cell>& chosen);

}  // namespace c10dd::matrix
