// SPDX-License-Identifier: Apache-2.0
// Random elements of the tensors of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/reduce_op.h"
#include "collectives/tensor.h"
#include "protocol/types.h"

namespace c10dd::matrix {

/// Which values random floats have. Integers and booleans have any bits, unless they are small.
enum class Values : std::uint8_t {
  moved,        ///< NaN and infinities too, and no edges: for what is only moved
  comparable,   ///< NaN and infinities too
  averageable,  ///< any but NaN and infinities: the average does not overflow
  addable,      ///< sums of 8 do not overflow
  near_one,     ///< products of 8 neither overflow nor vanish
  small,        ///< whole numbers from -2 to 2, or from 0, also of integers: exact in any order
};

/// Returns the values for which the result of `reduce` is defined.
Values values_for(ReduceOp::Kind reduce);

using Bytes = std::vector<std::byte>;

/// Returns `count` elements of a rank. They depend only on the arguments. Unless they are moved or
/// small, every fourth is an edge, at the same place on all ranks with the same seed. In turn all
/// ranks have the highest of the values there, all have the lowest, and one rank is unlike the
/// others: it has NaN if the values may be NaN, -1 beside integers that are -2, or the only true
/// boolean.
Bytes random_elements(DType dtype, std::size_t count, Values values, std::uint64_t seed, Rank rank);

/// Returns the elements of all ranks, small numbers: NCCL and its stand-in need not average others,
/// or keep a NaN.
std::vector<Bytes> small_inputs(Rank size, std::size_t count, DType dtype);

}  // namespace c10dd::matrix
