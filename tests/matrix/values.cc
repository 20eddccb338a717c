// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "protocol/format.h"
#include "tests/matrix/layout.h"

namespace c10dd::matrix {
namespace {

std::uint64_t bits_at(std::span<const std::byte> bytes, std::size_t index, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, size);
  return bits;
}

/// The values that the bits of a type of floats stand for.
class Floats {
 public:
  explicit Floats(Layout layout) : layout_(layout) {
    const int bias = static_cast<int>(low_bits(layout.exponent) >> 1);
    for (int exponent = 0; exponent <= 2 * bias; ++exponent) {
      units_.push_back(std::ldexp(1.0L, std::max(exponent, 1) - bias - layout.mantissa));
    }
  }

  /// The unit roundoff.
  long double roundoff() const { return std::ldexp(1.0L, -layout_.mantissa - 1); }
  /// The smallest number above 0.
  long double least() const { return units_.front(); }

  long double value_of(std::uint64_t bits) const {
    const std::uint64_t mantissa = bits & low_bits(layout_.mantissa);
    const std::uint64_t exponent = bits >> layout_.mantissa & low_bits(layout_.exponent);
    const bool negative = (bits >> (layout_.mantissa + layout_.exponent) & 1) != 0;
    long double value = mantissa == 0 ? INFINITY : NAN;
    if (exponent < units_.size()) {
      const std::uint64_t leading = exponent == 0 ? 0 : std::uint64_t{1} << layout_.mantissa;
      value = static_cast<long double>(leading | mantissa) * units_[exponent];
    }
    return negative ? -value : value;
  }

 private:
  Layout layout_;
  std::vector<long double> units_;  ///< of the mantissa, by the exponent
};

std::string text_of(std::size_t index, long double found, long double expected) {
  return format("element {} is {}, expected {}", index, static_cast<double>(found),
                static_cast<double>(expected));
}

std::string check_floats(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                         std::span<const std::byte> result) {
  const Floats floats(layout_of(dtype));
  const std::size_t size = size_of(dtype);
  const long double roundoff = floats.roundoff();
  const long double least = floats.least();
  const auto ranks = static_cast<long double>(inputs.size());
  for (std::size_t i = 0; i < result.size() / size; ++i) {
    const long double found = floats.value_of(bits_at(result, i, size));
    long double sum = 0;
    long double magnitudes = 0;
    long double product = 1;
    long double lowest = INFINITY;
    long double highest = -INFINITY;
    bool nan = false;
    for (Rank rank = 0; rank < inputs.size(); ++rank) {
      const long double value = floats.value_of(bits_at(inputs[rank], i, size));
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

/// An average has the sum.
std::int64_t combine(ReduceOp::Kind reduce, std::int64_t a, std::int64_t b) {
  switch (reduce) {
    case ReduceOp::product:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) *
                                       static_cast<std::uint64_t>(b));
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
    default:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) +
                                       static_cast<std::uint64_t>(b));
  }
}

bool combine_booleans(ReduceOp::Kind reduce, bool a, bool b) {
  switch (reduce) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return a && b;
    case ReduceOp::bxor:
      return a != b;
    default:
      return a || b;
  }
}

std::string check_integers(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                           std::span<const std::byte> result) {
  const bool boolean = dtype == DType::boolean;
  const std::size_t size = size_of(dtype);
  const int bits = 8 * static_cast<int>(size);
  // A number has its sign in all higher bits, unless the type has none.
  const int unused = dtype == DType::uint8 || boolean ? 0 : 64 - bits;
  for (std::size_t i = 0; i < result.size() / size; ++i) {
    const auto at = [&](std::span<const std::byte> bytes) {
      return static_cast<std::int64_t>(bits_at(bytes, i, size) << unused) >> unused;
    };
    std::int64_t number = boolean ? at(inputs[0]) != 0 : at(inputs[0]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      number = boolean ? combine_booleans(reduce, number != 0, at(inputs[rank]) != 0)
                       : combine(reduce, number, at(inputs[rank]));
    }
    // Only the sum of 64-bit integers has wrapped around.
    if (reduce == ReduceOp::avg) number /= static_cast<std::int64_t>(inputs.size());
    const std::uint64_t expected = static_cast<std::uint64_t>(number) & low_bits(bits);
    const std::uint64_t found = bits_at(result, i, size);
    if (found == expected) continue;
    return format("element {} is {:#x}, expected {:#x}", i, found, expected);
  }
  return {};
}

}  // namespace

std::string check_reduction(DType dtype, ReduceOp::Kind reduce, const std::vector<Bytes>& inputs,
                            std::span<const std::byte> result) {
  return layout_of(dtype).exponent > 0 ? check_floats(dtype, reduce, inputs, result)
                                       : check_integers(dtype, reduce, inputs, result);
}

}  // namespace c10dd::matrix
