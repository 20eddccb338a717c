// SPDX-License-Identifier: Apache-2.0
// Implements one function for each dtype and operation, with a loop that the compiler vectorises.
// The backend chooses the order in which these functions combine the ranks' arrays.
#include "collectives/reduce.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace c10dd::collectives {
namespace {

/// How elements of type T are computed: as values of type Value.
template <class T>
struct Arithmetic {  // float and double
  using Value = T;
  static Value load(T element) { return element; }
  static T store(Value value) { return value; }
};

// Integers are computed as unsigned integers that have at least the size of int: their sums and
// products wrap around, while those of signed types, and of types that are promoted to int, would
// be undefined on overflow.
template <class T>
requires std::is_integral_v<T>
struct Arithmetic<T> {
  using Value = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
  static Value load(T element) { return static_cast<Value>(element); }
  static T store(Value value) { return static_cast<T>(value); }
};

template <class T>
requires std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>
struct Arithmetic<T> {
  using Value = float;
  static Value load(T element) { return static_cast<float>(element); }
  static T store(Value value) { return T(value); }
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using A = Arithmetic<T>;
    return A::store(A::load(a) + A::load(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using A = Arithmetic<T>;
    return A::store(A::load(a) * A::load(b));
  }
};
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_class_v<T>) {
    return Arithmetic<T>::load(a) < Arithmetic<T>::load(b);
  } else {
    return a < b;
  }
}
/// Keeps a NaN, whichever operand has it, as PyTorch and NCCL do.
template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    const auto loaded = Arithmetic<T>::load(value);
    return loaded != loaded;
  }
}
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return less(b, a) || is_nan(b) ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return less(a, b) || is_nan(b) ? b : a;
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
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
  for (std::size_t i = 0; i < count; ++i) to[i] = Op::apply(left[i], right[i]);
}

/// Chooses for booleans that are 0 or 1.
ReduceFunction choose_boolean(ReduceOp op) {
  switch (op.kind) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return &reduce<std::uint8_t, And>;
    case ReduceOp::bxor:
      return &reduce<std::uint8_t, Xor>;
    default:
      return &reduce<std::uint8_t, Or>;
  }
}

template <class T>
ReduceFunction choose_bitwise(ReduceOp op) {
  if (op.kind == ReduceOp::band) return &reduce<T, And>;
  return op.kind == ReduceOp::bor ? &reduce<T, Or> : &reduce<T, Xor>;
}

template <class T>
ReduceFunction choose(ReduceOp op) {
  switch (op.kind) {
    case ReduceOp::product:
      return &reduce<T, Product>;
    case ReduceOp::min:
      return &reduce<T, Min>;
    case ReduceOp::max:
      return &reduce<T, Max>;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if constexpr (std::is_integral_v<T>) return choose_bitwise<T>(op);
      return nullptr;
    default:
      return &reduce<T, Sum>;
  }
}

/// Calls `f` with each element of type T, and stores the result in its place.
template <class T, class F>
void replace_all(const Tensor& tensor, F f) {
  T* const values = static_cast<T*>(tensor.data);
  for (std::size_t i = 0; i < tensor.count; ++i) values[i] = f(values[i]);
}

}  // namespace

ReduceFunction reduce_function(DType dtype, ReduceOp op) {
  if (!combines(op, dtype)) return nullptr;
  return with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      return choose_boolean(op);
    } else {
      return choose<T>(op);
    }
  });
}

void prepare(const Tensor& tensor, ReduceOp op, Rank size) {
  if (tensor.dtype == DType::boolean) {
    return replace_all<std::uint8_t>(tensor, [](std::uint8_t byte) { return byte != 0; });
  }
  if (op.kind != ReduceOp::premul_sum && op.kind != ReduceOp::avg) return;
  with_dtype(tensor.dtype, [&]<class T>(std::type_identity<T>) {
    using A = Arithmetic<T>;
    if constexpr (!std::is_integral_v<T>) {
      const auto one = static_cast<typename A::Value>(1);
      const auto factor = op.kind == ReduceOp::avg ? one / static_cast<typename A::Value>(size)
                                                   : static_cast<typename A::Value>(op.factor);
      replace_all<T>(tensor, [factor](T value) { return A::store(A::load(value) * factor); });
    }
  });
}

void finish(const Tensor& tensor, ReduceOp op, Rank size) {
  if (op.kind != ReduceOp::avg) return;
  with_dtype(tensor.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      // Divides in 64 bits, because the size may be larger than the largest value of a small T.
      const auto divisor = static_cast<std::int64_t>(size);
      replace_all<T>(tensor, [divisor](T value) {
        return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
      });
    }
  });
}

}  // namespace c10dd::collectives
