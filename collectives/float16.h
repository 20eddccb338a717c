// SPDX-License-Identifier: Apache-2.0
// Float16 and BFloat16: the two 16-bit floating-point types of tensors. They convert from and to
// float; arithmetic happens in float. Standard library only.
#pragma once

#include <bit>
#include <cstdint>

#include <c10dd/language.h>

namespace c10dd {

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits. Compared by bits.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to the nearest Float16, and ties to even. 65,520 and more become infinity. A NaN stays
  /// a NaN.
  explicit constexpr Float16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  /// Exact, except that a process that flushes subnormal floats to zero also flushes the subnormal
  /// Float16.
  explicit constexpr operator float() const {
    // As a float, the bits without the sign are too small by a factor of 2^112: this is the
    // difference of the exponents' biases. An exponent of ones means infinity or NaN in both types.
    const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
    const std::uint32_t scaled =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const std::uint32_t not_finite = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(scaled | not_finite | (bits & 0x8000u) << 16);
  }

  bool operator==(const Float16&) const = default;

 private:
  static constexpr std::uint16_t rounded(std::uint32_t from) {
    const std::uint32_t sign = from >> 16 & 0x8000u;
    const std::uint32_t magnitude = from & 0x7fffffffu;
    std::uint32_t to = 0;
    if (magnitude > 0x7f800000u) {  // NaN
      to = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    } else if (magnitude >= 0x47800000u) {  // 2^16 and more
      to = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14 and more: normal
      const std::uint32_t odd = magnitude >> 13 & 1u;
      to = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    } else {
      // The last bit of a subnormal Float16 is 2^-24, as is that of a float in [0.5, 1): the
      // addition rounds to it.
      to = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    return static_cast<std::uint16_t>(sign | to);
  }
};

/// bfloat16: the upper half of a float. 8 exponent bits, 7 fraction bits. Compared by bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to the nearest BFloat16, and ties to even. A NaN stays a NaN.
  explicit constexpr BFloat16(float value) : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  explicit constexpr operator float() const {  ///< exact
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

  bool operator==(const BFloat16&) const = default;

 private:
  static constexpr std::uint16_t rounded(std::uint32_t from) {
    const bool is_nan = (from & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t to = is_nan ? from | 0x400000u : from + 0x7fffu + (from >> 16 & 1u);
    return static_cast<std::uint16_t>(to >> 16);
  }
};

}  // namespace c10dd
