// SPDX-License-Identifier: Apache-2.0
// Implements one function for each dtype and operation, with a loop that the compiler vectorises.
// The backend chooses the order in which these functions combine the ranks' arrays.
#include "collectives/reduce.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace c10dd::collectives {
namespace {

// `type` is the type in which sums and products of T are computed. For integers it is the unsigned
// version of T, which wraps on overflow. Signed overflow would be undefined.
template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(static_cast<W>(a) + static_cast<W>(b)));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(static_cast<W>(a) * static_cast<W>(b)));
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

template <class T, class Op>
void reduce(void* out, const void* a, const void* b, std::size_t count) {
  T* const to = static_cast<T*>(out);
  const T* const left = static_cast<const T*>(a);
  const T* const right = static_cast<const T*>(b);
// Tells the compiler that no iteration depends on another one. clang does not have this pragma.
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) to[i] = Op::template apply<T>(left[i], right[i]);
}

template <class T>
ReduceFunction choose(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return &reduce<T, Sum>;
    case ReduceOp::product:
      return &reduce<T, Product>;
    case ReduceOp::min:
      return &reduce<T, Min>;
    case ReduceOp::max:
      return &reduce<T, Max>;
  }
  return nullptr;
}

template <class T>
void divide_all(void* data, std::size_t count, Rank divisor) {
  T* const values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      values[i] /= static_cast<T>(divisor);
    } else {
      // Divides in 64 bits, because the divisor may be larger than the largest value of a small T.
      values[i] =
          static_cast<T>(static_cast<std::int64_t>(values[i]) / static_cast<std::int64_t>(divisor));
    }
  }
}

}  // namespace

ReduceFunction reduce_function(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::float32:
      return choose<float>(op);
    case DType::float64:
      return choose<double>(op);
    case DType::int8:
      return choose<std::int8_t>(op);
    case DType::uint8:
      return choose<std::uint8_t>(op);
    case DType::int32:
      return choose<std::int32_t>(op);
    case DType::int64:
      return choose<std::int64_t>(op);
  }
  return nullptr;
}

void divide(const Tensor& tensor, Rank divisor) {
  switch (tensor.dtype) {
    case DType::float32:
      return divide_all<float>(tensor.data, tensor.count, divisor);
    case DType::float64:
      return divide_all<double>(tensor.data, tensor.count, divisor);
    case DType::int8:
      return divide_all<std::int8_t>(tensor.data, tensor.count, divisor);
    case DType::uint8:
      return divide_all<std::uint8_t>(tensor.data, tensor.count, divisor);
    case DType::int32:
      return divide_all<std::int32_t>(tensor.data, tensor.count, divisor);
    case DType::int64:
      return divide_all<std::int64_t>(tensor.data, tensor.count, divisor);
  }
}

}  // namespace c10dd::collectives
