// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "protocol/format.h"

namespace c10dd::matrix {
namespace {

/// The parts of a float, in bits.
struct Layout {
  int exponent = 0;  ///< 0: not a float
  int mantissa = 0;
};

Layout layout_of(DType dtype) {
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

std::uint64_t low_bits(int count) {
  return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

std::uint64_t bits_at(const Bytes& bytes, std::size_t index, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, size);
  return bits;
}

std::uint64_t random_float(Layout layout, Values values, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const std::uint64_t mantissa = bits & low_bits(layout.mantissa);
  const std::uint64_t sign = (bits >> 63) << (layout.exponent + layout.mantissa);
  const std::uint64_t highest = low_bits(layout.exponent);
  const std::uint64_t bias = highest >> 1;
  std::uint64_t exponent = random() & highest;
  if (values == Values::averageable && exponent >= highest - 1) {
    // The upper half of the largest numbers is left out, because a rounded average may overflow.
    const std::uint64_t lower = mantissa >> 1;
    return sign | (highest - 1) << layout.mantissa | lower;
  }
  // Below 256, so that a sum of 8, each times 3, is finite in every type.
  if (values == Values::addable) exponent %= bias + 8;
  if (values == Values::near_one) exponent = bias - 1 + (exponent & 1);
  return sign | exponent << layout.mantissa | mantissa;
}

long double value_of(Layout layout, std::uint64_t bits) {
  const auto mantissa = static_cast<long double>(bits & low_bits(layout.mantissa));
  const std::uint64_t highest = low_bits(layout.exponent);
  const int bias = static_cast<int>(highest >> 1);
  const std::uint64_t exponent = bits >> layout.mantissa & highest;
  const bool negative = (bits >> (layout.mantissa + layout.exponent) & 1) != 0;
  long double value = 0;
  if (exponent == highest) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - layout.mantissa);
  } else {
    value =
        std::ldexp(1 + std::ldexp(mantissa, -layout.mantissa), static_cast<int>(exponent) - bias);
  }
  return negative ? -value : value;
}

std::string text_of(std::size_t index, long double found, long double expected) {
  return format("element {} is {}, expected {}", index, static_cast<double>(found),
                static_cast<double>(expected));
}

std::string check_floats(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                         const Bytes& result) {
  const Layout layout = layout_of(dtype);
  const std::size_t size = size_of(dtype);
  const long double roundoff = std::ldexp(1.0L, -layout.mantissa - 1);
  const int bias = static_cast<int>(low_bits(layout.exponent) >> 1);
  const long double least = std::ldexp(1.0L, 1 - bias - layout.mantissa);  // smallest above 0
  const auto ranks = static_cast<long double>(inputs.size());
  for (std::size_t i = 0; i < result.size() / size; ++i) {
    const long double found = value_of(layout, bits_at(result, i, size));
    long double sum = 0;
    long double magnitudes = 0;
    long double product = 1;
    long double lowest = INFINITY;
    long double highest = -INFINITY;
    bool nan = false;
    for (Rank rank = 0; rank < inputs.size(); ++rank) {
      const long double value = value_of(layout, bits_at(inputs[rank], i, size));
      const long double scaled = reduce == ReduceOp::premul_sum ? value * factor_of(rank) : value;
      nan = nan || std::isnan(value);
      sum += scaled;
      magnitudes += std::abs(scaled);
      product *= value;
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
    const long double slack = (ranks + 1) * (roundoff * magnitudes + least);
    long double expected = sum;
    long double bound = slack;
    if (reduce == ReduceOp::avg) {
      expected = sum / ranks;
      // Each rank multiplies by 1 / ranks, which is rounded, and rounds the product.
      bound = slack / ranks + roundoff * (2 * magnitudes / ranks + std::abs(expected)) +
              (ranks + 1) * least;
    } else if (reduce == ReduceOp::product) {
      expected = product;
      bound = 2 * ranks * roundoff * std::abs(product) + least;
    } else if (reduce == ReduceOp::min || reduce == ReduceOp::max) {
      expected = nan ? NAN : reduce == ReduceOp::min ? lowest : highest;
      bound = 0;
      if (nan && std::isnan(found)) continue;
    }
    if (found == expected || std::abs(found - expected) <= bound) continue;
    return text_of(i, found, expected);
  }
  return {};
}

/// Returns the bits as a number with a sign, unless the type has none.
std::int64_t number_of(DType dtype, std::uint64_t bits) {
  const int unused = 64 - 8 * static_cast<int>(size_of(dtype));
  if (dtype == DType::uint8) return static_cast<std::int64_t>(bits);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::uint64_t combine(DType dtype, ReduceOp::Kind reduce, std::uint64_t a, std::uint64_t b) {
  switch (reduce) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return number_of(dtype, a) < number_of(dtype, b) ? a : b;
    case ReduceOp::max:
      return number_of(dtype, a) > number_of(dtype, b) ? a : b;
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
    default:
      return a + b;
  }
}

std::uint64_t combine_booleans(ReduceOp::Kind reduce, std::uint64_t a, std::uint64_t b) {
  switch (reduce) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bxor:
      return a ^ b;
    default:
      return a | b;
  }
}

std::string check_integers(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                           const Bytes& result) {
  const bool boolean = dtype == DType::boolean;
  const std::size_t size = size_of(dtype);
  const std::uint64_t mask = low_bits(8 * static_cast<int>(size));
  for (std::size_t i = 0; i < result.size() / size; ++i) {
    const auto at = [&](const Bytes& bytes) {
      const std::uint64_t bits = bits_at(bytes, i, size);
      return boolean ? std::uint64_t{bits != 0} : bits;
    };
    std::uint64_t expected = at(inputs[0]);
    std::int64_t sum = number_of(dtype, expected);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      expected = boolean ? combine_booleans(reduce, expected, at(inputs[rank]))
                         : combine(dtype, reduce, expected, at(inputs[rank])) & mask;
      sum += number_of(dtype, at(inputs[rank]));
    }
    if (reduce == ReduceOp::avg) {
      // Only the sum of 64-bit integers wraps around.
      const auto ranks = static_cast<std::int64_t>(inputs.size());
      if (size == 8) sum = number_of(dtype, expected);
      expected = static_cast<std::uint64_t>(sum / ranks) & mask;
    }
    const std::uint64_t found = bits_at(result, i, size);
    if (found == expected) continue;
    return format("element {} is {:#x}, expected {:#x}", i, found, expected);
  }
  return {};
}

}  // namespace

Values values_for(ReduceOp::Kind reduce) {
  if (reduce == ReduceOp::product) return Values::near_one;
  if (reduce == ReduceOp::min || reduce == ReduceOp::max) return Values::any_bits;
  return reduce == ReduceOp::avg ? Values::averageable : Values::addable;
}

Bytes random_elements(DType dtype, std::size_t count, Values values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Layout layout = layout_of(dtype);
  const std::size_t size = size_of(dtype);
  Bytes bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (layout.exponent > 0 && values != Values::any_bits) {
      bits = random_float(layout, values, random);
    }
    if (dtype == DType::boolean && (bits >> 32 & 1) != 0) bits = 0;
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

std::string check_reduction(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                            const Bytes& result) {
  return layout_of(dtype).exponent > 0 ? check_floats(dtype, reduce, inputs, result)
                                       : check_integers(dtype, reduce, inputs, result);
}

}  // namespace c10dd::matrix
