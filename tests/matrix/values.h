// SPDX-License-Identifier: Apache-2.0
// What a reduction must make of the elements of the ranks. Computes with the bits of the elements
// and with long double, and shares nothing with the product's arithmetic.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tests/matrix/elements.h"

namespace c10dd::matrix {

/// The factor of a rank in premul_sum.
constexpr double factor_of(Rank rank) { return rank % 2 == 0 ? 0.5 : 3; }

/// Compares the reduction of the inputs of all ranks with `result`. Integers, booleans, min and max
/// must be exact. For n ranks, and a unit roundoff u of the type, the error of a sum may be
/// (n + 1) u times the sum of the magnitudes, and that of a product 2 n u times its magnitude: the
/// bounds of any order of the operations (Higham, Accuracy and Stability of Numerical Algorithms,
/// 4.2). Returns what is wrong, or "".
std::string check_reduction(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                            std::span<const std::byte> result);

}  // namespace c10dd::matrix
