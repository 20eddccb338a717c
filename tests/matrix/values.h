// SPDX-License-Identifier: Apache-2.0
// Random elements, and what a reduction must make of them. Computes with the bits of the elements
// and with long double, and shares nothing with the product's arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/reduce_op.h"
#include "collectives/tensor.h"
#include "protocol/types.h"

namespace c10dd::matrix {

/// Which values random floats have. Integers and booleans have any bits.
enum class Values : std::uint8_t {
  any_bits,     ///< NaN and infinities too: for what is only moved or compared
  averageable,  ///< any but NaN and infinities: the average does not overflow
  addable,      ///< sums of 8 do not overflow
  near_one,     ///< products of 8 neither overflow nor vanish
};

/// Returns the values for which the result of `reduce` is defined.
Values values_for(ReduceOp::Kind reduce);

using Bytes = std::vector<std::byte>;

/// Returns `count` elements. They depend only on the arguments.
Bytes random_elements(DType dtype, std::size_t count, Values values, std::uint64_t seed);

/// The factor of a rank in premul_sum.
constexpr double factor_of(Rank rank) { return rank % 2 == 0 ? 0.5 : 3; }

/// Compares the reduction of the inputs of all ranks with `result`. Integers, booleans, min and max
/// must be exact. For n ranks, and a unit roundoff u of the type, the error of a sum may be
/// (n + 1) u times the sum of the magnitudes, and that of a product 2 n u times its magnitude: the
/// bounds of any order of the operations (Higham, Accuracy and Stability of Numerical Algorithms,
/// 4.2). Returns what is wrong, or "".
std::string check_reduction(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                            const Bytes& result);

}  // namespace c10dd::matrix
