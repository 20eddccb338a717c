// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reductions, for every type and operation, against scalar code: whole numbers
// are computed with 128 bits and then cut off, 16-bit floats in double. The conversions of the
// 16-bit floats are checked apart, against the definition of their formats.
#include "collectives/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace c10dd::collectives {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr std::size_t kCount = 1'003;

/// Returns a value of type T with random bits, so that all values occur. A float is a number.
template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 2 == 0;
  } else {
    for (;;) {
      T value{};
      const std::uint64_t bits = random();
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
      if constexpr (std::is_integral_v<T>) return value;
      if constexpr (std::is_class_v<T>) {
        if (std::isfinite(static_cast<float>(value))) return value;
      } else if constexpr (std::is_floating_point_v<T>) {
        if (std::isfinite(value)) return value;
      }
    }
  }
}

/// Returns the value of a finite 16-bit float, decoded by the definition of its format.
long double decoded(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int one = 1 << fraction_bits;
  const int fraction = (bits & (one - 1)) + (exponent == 0 ? 0 : one);
  const long double magnitude =
      std::ldexp(static_cast<long double>(fraction), std::max(exponent, 1) - bias - fraction_bits);
  return bits >> 15 ? -magnitude : magnitude;
}
long double exact(Float16 value) { return decoded(value.bits, 10, 15); }
long double exact(BFloat16 value) { return decoded(value.bits, 7, 127); }

template <class Half>
bool is_nan(Half value) {
  return std::isnan(static_cast<float>(value));
}

/// Checks that `rounded` is the value of its type that is nearest to `wanted`, and even in a tie.
template <class Half>
void expect_nearest(Half rounded, long double wanted, std::uint16_t infinity) {
  const std::uint16_t magnitude = rounded.bits & 0x7fff;
  const long double size = std::fabs(wanted);
  const auto at = [&](int bits) {
    Half half{};
    half.bits = static_cast<std::uint16_t>(bits);
    // Infinity stands for the number that would follow the largest one.
    if (bits < infinity) return exact(half);
    half.bits = static_cast<std::uint16_t>(infinity - 1);
    Half before{};
    before.bits = static_cast<std::uint16_t>(infinity - 2);
    return 2 * exact(half) - exact(before);
  };
  ASSERT_LE(magnitude, infinity);
  if (magnitude > 0) {
    const long double middle = (at(magnitude - 1) + at(magnitude)) / 2;
    EXPECT_TRUE(size > middle || (size == middle && magnitude % 2 == 0)) << double(wanted);
  }
  if (magnitude < infinity) {
    const long double middle = (at(magnitude) + at(magnitude + 1)) / 2;
    EXPECT_TRUE(size < middle || (size == middle && magnitude % 2 == 0)) << double(wanted);
  }
  if (wanted != 0) {
    EXPECT_EQ(rounded.bits >> 15, wanted < 0 ? 1 : 0) << double(wanted);
  }
}

template <class Half>
void expect_conversions(std::uint16_t infinity) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    Half half{};
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    if ((bits & 0x7fff) > infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(is_nan(Half(value))) << bits;
    } else {
      ASSERT_EQ(Half(value).bits, bits);
      if ((bits & 0x7fff) == infinity) {
        ASSERT_TRUE(std::isinf(value)) << bits;
      } else {
        ASSERT_EQ(static_cast<long double>(value), exact(half)) << bits;
      }
    }
  }
  // The middle between two neighbours, and the floats next to it. The middle is exact in float.
  for (std::uint16_t bits = 0; bits < infinity - 1; ++bits) {
    Half low{};
    low.bits = bits;
    Half high{};
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((exact(low) + exact(high)) / 2);
    for (const float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 3e38f)}) {
      expect_nearest(Half(value), value, infinity);
      expect_nearest(Half(-value), -value, infinity);
    }
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const float value = random_value<float>(random);
    expect_nearest(Half(value), value, infinity);
  }
}

TEST(Float16, ConvertsEveryValueAndRoundsToTheNearest) {
  expect_conversions<Float16>(0x7c00);
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-0.0f).bits, 0x8000);
  EXPECT_EQ(Float16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_EQ(Float16(0x1p-25f).bits, 0) << "a tie between 0 and the smallest";
  EXPECT_EQ(Float16(0x1.000002p-25f).bits, 1);
}

TEST(BFloat16, ConvertsEveryValueAndRoundsToTheNearest) {
  expect_conversions<BFloat16>(0x7f80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  const float nan = std::bit_cast<float>(0x7f800001u);  // its upper half is infinity
  EXPECT_TRUE(is_nan(BFloat16(nan)));
}

/// Returns `value` cut off to the bits of T, as two's complement.
template <class T>
T cut(Wide value) {
  return static_cast<T>(static_cast<std::uint64_t>(static_cast<UnsignedWide>(value)));
}

template <class T>
T expected_whole(ReduceOp op, T a, T b) {
  const Wide x = a;  // NOLINT(bugprone-signed-char-misuse): the sign of int8 matters
  const Wide y = b;  // NOLINT(bugprone-signed-char-misuse)
  switch (op.kind) {
    case ReduceOp::product:
      return cut<T>(x * y);
    case ReduceOp::min:
      return x < y ? a : b;
    case ReduceOp::max:
      return x > y ? a : b;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: {
      T result = 0;
      for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit) {
        const int ones = static_cast<int>(x >> bit & 1) + static_cast<int>(y >> bit & 1);
        const bool one = op.kind == ReduceOp::band  ? ones == 2
                         : op.kind == ReduceOp::bor ? ones > 0
                                                    : ones == 1;
        if (one) result = cut<T>(static_cast<Wide>(result) + (Wide{1} << bit));
      }
      return result;
    }
    default:
      return cut<T>(x + y);
  }
}

bool expected_truth(ReduceOp op, bool a, bool b) {
  const int trues = int{a} + int{b};
  switch (op.kind) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return trues == 2;
    case ReduceOp::bxor:
      return trues == 1;
    default:
      return trues > 0;
  }
}

/// Returns the result on two floats: exact to the last bit, because the hardware rounds correctly.
template <class T>
T expected_float(ReduceOp op, T a, T b) {
  const auto wide = [](T value) {
    if constexpr (std::is_class_v<T>) {
      return static_cast<double>(exact(value));
    } else {
      return value;
    }
  };
  // Computes 16-bit floats in double, rounds the result to float, and then to 16 bits. The first
  // two steps give the same as arithmetic in float: double has more than twice the bits of float.
  const auto narrow = [](auto value) {
    if constexpr (std::is_class_v<T>) {
      return T(static_cast<float>(value));
    } else {
      return static_cast<T>(value);
    }
  };
  switch (op.kind) {
    case ReduceOp::product:
      return narrow(wide(a) * wide(b));
    case ReduceOp::min:
      return wide(b) < wide(a) ? b : a;
    case ReduceOp::max:
      return wide(a) < wide(b) ? b : a;
    default:
      return narrow(wide(a) + wide(b));
  }
}

template <class T>
T expected(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return expected_truth(op, a, b);
  } else if constexpr (std::is_integral_v<T>) {
    return expected_whole(op, a, b);
  } else {
    return expected_float(op, a, b);
  }
}

/// An array of T, also of bool.
template <class T>
struct Array {
  std::unique_ptr<T[]> values = std::make_unique<T[]>(kCount);

  explicit Array(std::mt19937_64& random) {
    for (std::size_t i = 0; i < kCount; ++i) values[i] = random_value<T>(random);
  }
  Tensor tensor() { return tensor_of(values.get(), kCount); }
};

TEST(Reduce, CombinesEveryTypeByEveryOperation) {
  std::mt19937_64 random(7);
  std::size_t combined = 0;
  for (std::size_t d = 0; d < kDTypes; ++d) {
    for (std::size_t k = 0; k < kReduceOps; ++k) {
      const auto dtype = static_cast<DType>(d);
      const ReduceOp op(static_cast<ReduceOp::Kind>(k));
      const ReduceFunction function = reduce_function(dtype, op);
      ASSERT_EQ(function != nullptr, combines(op, dtype)) << name_of(op) << name_of(dtype);
      if (function == nullptr) continue;
      ++combined;
      with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        Array<T> a(random);
        Array<T> b(random);
        Array<T> out(random);
        function(out.values.get(), a.values.get(), b.values.get(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_TRUE(out.values[i] == expected<T>(op, a.values[i], b.values[i]))
              << name_of(dtype) << " " << name_of(op) << " at " << i;
        }
        function(a.values.get(), a.values.get(), b.values.get(), kCount);
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): NaN differs from itself
        ASSERT_EQ(0, std::memcmp(a.values.get(), out.values.get(), kCount * sizeof(T)))
            << "in place, " << name_of(dtype) << " " << name_of(op);
      });
    }
  }
  EXPECT_EQ(combined, 4 * 6 + 5 * 8 + 7U);
}

TEST(Reduce, AveragesTruncateWholeNumbersAndMultiplyFloats) {
  std::mt19937_64 random(8);
  for (const Rank size : {1u, 3u, 300u}) {
    for (std::size_t d = 0; d < kDTypes; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (!combines(ReduceOp::avg, dtype)) continue;
      with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        Array<T> a(random);
        const std::vector<T> before(a.values.get(), a.values.get() + kCount);
        prepare(a.tensor(), ReduceOp::avg, size);
        finish(a.tensor(), ReduceOp::avg, size);
        for (std::size_t i = 0; i < kCount; ++i) {
          if constexpr (std::is_integral_v<T>) {
            ASSERT_EQ(a.values[i], static_cast<T>(static_cast<Wide>(before[i]) / size));
          } else if constexpr (std::is_class_v<T>) {
            const auto whole = static_cast<float>(exact(before[i]));
            ASSERT_EQ(a.values[i], T(whole * (1.0f / static_cast<float>(size))));
          } else {
            ASSERT_EQ(a.values[i], before[i] * (T{1} / static_cast<T>(size)));
          }
        }
      });
    }
  }
}

TEST(Reduce, PreparesByTheFactorOfPremulSum) {
  std::vector<float> floats = {1.5f, -2, 0};
  prepare(tensor_of(floats), premul_sum(0.5), 2);
  EXPECT_EQ(floats, (std::vector<float>{0.75f, -1, 0}));
  std::vector<Float16> halves = {Float16(3), Float16(65504)};
  prepare(tensor_of(halves), premul_sum(2), 2);
  EXPECT_EQ(halves, (std::vector<Float16>{Float16(6), Float16(INFINITY)}));
  std::vector<std::int32_t> whole = {7};
  prepare(tensor_of(whole), ReduceOp::sum, 2);
  finish(tensor_of(whole), ReduceOp::sum, 7);
  EXPECT_EQ(whole[0], 7);
}

TEST(Reduce, MakesBooleansZeroOrOne) {
  std::vector<std::uint8_t> bytes = {0, 1, 2, 255};
  Tensor tensor = tensor_of(bytes);
  tensor.dtype = DType::boolean;
  prepare(tensor, ReduceOp::bxor, 2);
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

}  // namespace
}  // namespace c10dd::collectives
