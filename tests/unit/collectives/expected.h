// SPDX-License-Identifier: Apache-2.0
// Inputs of the ranks, and what a collective must make of them by a serial computation that shares
// nothing with the product's arithmetic. Inputs are small whole numbers, so floats are exact in any
// order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "collectives/operation.h"

namespace c10dd::test {

/// Calls `f` for each type of elements: with its DType, and with the type in which a test keeps
/// elements. The test keeps a boolean as a byte, because a vector of bool stores bits.
template <class F>
void each_type(F f) {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      using Kept = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      f(dtype, std::type_identity<Kept>());
    });
  }
}

template <class T>
Tensor tensor(std::vector<T>& values, DType dtype) {
  Tensor result = tensor_of(values);
  result.dtype = dtype;
  return result;
}

template <class T>
double number(T value) {
  if constexpr (std::is_class_v<T>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}
template <class T>
T element(double value) {
  if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value));  // wraps
  } else {
    return static_cast<T>(value);
  }
}

/// Small whole numbers, negative too if the type has such; 0 and 1 for booleans.
template <class T>
std::vector<T> input_of(Rank rank, std::size_t count, DType dtype) {
  std::vector<T> values(count);
  const int shift = std::is_unsigned_v<T> ? 0 : 2;
  const int different = dtype == DType::boolean ? 2 : 5;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = i * 7 + rank * 3 + i / 5;
    values[i] = element<T>(static_cast<int>(place % static_cast<unsigned>(different)) - shift);
  }
  return values;
}

inline double combined(ReduceOp op, bool truth, double a, double b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (op.kind) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<double>(x & y);
    case ReduceOp::bor:
      return static_cast<double>(x | y);
    case ReduceOp::bxor:
      return static_cast<double>(x ^ y);
    default:
      return truth ? std::max(a, b) : a + b;
  }
}

/// The factor of a rank in premul_sum: a power of two, so that the products are exact.
inline double factor_of(Rank rank) { return rank % 2 == 0 ? 0.5 : 4; }

template <class T>
T expected_at(std::size_t i, Rank size, ReduceOp op, DType dtype,
              const std::vector<std::vector<T>>& inputs) {
  const auto at = [&](Rank rank) {
    const double factor = op.kind == ReduceOp::premul_sum ? factor_of(rank) : 1;
    return number(inputs[rank][i]) * factor;
  };
  double result = at(0);
  for (Rank rank = 1; rank < size; ++rank) {
    result = combined(op, dtype == DType::boolean, result, at(rank));
  }
  if (op.kind != ReduceOp::avg) return element<T>(result);
  if (std::is_integral_v<T>) return element<T>(std::trunc(result / size));
  return element<T>(result / size);
}

/// Returns whether results are as expected. An average of floats may differ by what the rounding of
/// 1 / size, of each product and of each sum of small numbers makes.
template <class T>
bool matches(const std::vector<T>& got, const std::vector<T>& expected, ReduceOp op) {
  if (std::is_integral_v<T> || op != ReduceOp::avg) return got == expected;
  if (got.size() != expected.size()) return false;
  const double roundoff = sizeof(T) == 8 ? 1e-15 : sizeof(T) == 4 ? 1e-6 : 0.02;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(number(got[i]) - number(expected[i]));
    if (!(error <= roundoff * (2 + std::abs(number(expected[i]))))) return false;
  }
  return true;
}

template <class T>
using Inputs = std::vector<std::vector<T>>;  // of all ranks

template <class T>
Inputs<T> inputs_of(Rank size, std::size_t count, DType dtype) {
  Inputs<T> inputs;
  for (Rank rank = 0; rank < size; ++rank) inputs.push_back(input_of<T>(rank, count, dtype));
  return inputs;
}

template <class T>
std::vector<T> reduction_of(const Inputs<T>& inputs, ReduceOp op, DType dtype) {
  std::vector<T> result(inputs.front().size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = expected_at(i, static_cast<Rank>(inputs.size()), op, dtype, inputs);
  }
  return result;
}

}  // namespace c10dd::test
