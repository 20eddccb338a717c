// SPDX-License-Identifier: Apache-2.0
// How the bits of floats are laid out.
#pragma once

#include <cstdint>

#include "collectives/dtype.h"

namespace c10dd::matrix {

/// The parts of a float, in bits.
struct Layout {
  int exponent = 0;  ///< 0: not a float
  int mantissa = 0;
};

inline Layout layout_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {5, 10};
    case DType::bfloat16:
      return {8, 7};
    case DType::float32:
      return {8, 23};
    case DType::float64:
      return {11, 52};
    default:
      return {};
  }
}

inline std::uint64_t low_bits(int count) {
  return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace c10dd::matrix
