// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/elements.h"

#include <algorithm>
#include <cstring>

#include "tests/matrix/layout.h"

namespace c10dd::matrix {
namespace {

/// SplitMix64, which is several times faster than the engines of the standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t bits = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }

 private:
  std::uint64_t state_;
};

std::uint64_t random_float(Layout layout, Values values, Random& random) {
  const std::uint64_t bits = random();
  const std::uint64_t mantissa = bits & low_bits(layout.mantissa);
  const std::uint64_t sign = (bits >> 63) << (layout.exponent + layout.mantissa);
  const std::uint64_t highest = low_bits(layout.exponent);
  const std::uint64_t bias = highest >> 1;
  const std::uint64_t drawn = random();
  std::uint64_t exponent = drawn & highest;
  // Half of them are of about the same size: the rounding of their sum depends on the order.
  if (drawn >> 63 != 0) exponent = bias - 4 + (exponent & 7);
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

std::uint64_t highest_float(Layout layout, Values values) {
  const std::uint64_t most = low_bits(layout.exponent) - 1;  // of finite numbers
  const std::uint64_t bias = low_bits(layout.exponent) >> 1;
  const std::uint64_t mantissa = low_bits(layout.mantissa);
  switch (values) {
    case Values::averageable:
      return most << layout.mantissa | mantissa >> 1;
    case Values::addable:
      return (bias + 7) << layout.mantissa | mantissa;
    case Values::near_one:
      return bias << layout.mantissa | mantissa;
    default:
      return most << layout.mantissa | mantissa;
  }
}

/// Returns edge `number` of a rank, or `other` where it has none.
std::uint64_t edge_bits(DType dtype, Values values, std::uint64_t number, Rank rank,
                        std::uint64_t other) {
  const Layout layout = layout_of(dtype);
  const std::uint64_t turn = number % 3;
  const bool unlike = number / 3 % 8 == rank % 8;
  if (layout.exponent > 0) {
    const std::uint64_t sign = turn << (layout.exponent + layout.mantissa);
    if (turn < 2) return sign | highest_float(layout, values);
    const std::uint64_t quiet_nan = low_bits(layout.exponent + 1) << (layout.mantissa - 1);
    return values == Values::comparable && unlike ? quiet_nan : other;
  }
  if (dtype == DType::boolean) return turn < 2 ? turn * 0xff : std::uint64_t{unlike} << 1;
  const int bits = 8 * static_cast<int>(size_of(dtype));
  const std::uint64_t most = low_bits(dtype == DType::uint8 ? bits : bits - 1);
  if (turn < 2) return most + turn;  // behind the highest comes the lowest
  return std::uint64_t{0} - (unlike ? 1 : 2);
}

/// Returns one of the whole numbers around 0.
std::uint64_t small_bits(DType dtype, std::uint64_t drawn) {
  const Layout layout = layout_of(dtype);
  if (dtype == DType::boolean) return drawn % 2;
  if (dtype == DType::uint8) return drawn % 5;
  const auto number = static_cast<std::int64_t>(drawn % 5) - 2;
  if (layout.exponent == 0) return static_cast<std::uint64_t>(number);
  if (number == 0) return 0;
  const std::uint64_t sign = std::uint64_t{number < 0} << (layout.exponent + layout.mantissa);
  const std::uint64_t bias = low_bits(layout.exponent) >> 1;
  return sign | (bias + (number % 2 == 0 ? 1 : 0)) << layout.mantissa;
}

}  // namespace

Values values_for(ReduceOp::Kind reduce) {
  if (reduce == ReduceOp::product) return Values::near_one;
  if (reduce == ReduceOp::min || reduce == ReduceOp::max) return Values::comparable;
  return reduce == ReduceOp::avg ? Values::averageable : Values::addable;
}

Bytes random_elements(DType dtype, std::size_t count, Values values, std::uint64_t seed,
                      Rank rank) {
  Random random(seed + rank * std::uint64_t{1'000'003});
  const Layout layout = layout_of(dtype);
  const std::size_t size = size_of(dtype);
  Bytes bytes(count * size);
  if (values == Values::moved && dtype != DType::boolean) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t bits = random();
      std::memcpy(bytes.data() + at, &bits, std::min(sizeof bits, bytes.size() - at));
    }
    return bytes;
  }
  const bool has_edges = values != Values::moved && values != Values::small;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (values == Values::small) {
      bits = small_bits(dtype, bits);
    } else if (layout.exponent > 0 && values != Values::comparable) {
      bits = random_float(layout, values, random);
    } else if (dtype == DType::boolean && (bits >> 32 & 1) != 0) {
      bits = 0;
    }
    const std::uint64_t place = seed + i;
    if (has_edges && place % 4 == 0) bits = edge_bits(dtype, values, place / 4, rank, bits);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

std::vector<Bytes> small_inputs(Rank size, std::size_t count, DType dtype) {
  std::vector<Bytes> inputs;
  for (Rank rank = 0; rank < size; ++rank) {
    inputs.push_back(random_elements(dtype, count, Values::small, 1, rank));
  }
  return inputs;
}

}  // namespace c10dd::matrix
