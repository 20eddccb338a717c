// SPDX-License-Identifier: Apache-2.0
// ReduceOp: the operations that combine the elements of several ranks. Standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include <c10dd/dtype.h>

namespace c10dd {

/// An operation that combines the elements of all ranks. Write ReduceOp::sum and so on, or
/// premul_sum(factor).
///
/// Sums and products of integers wrap around on overflow. Elements of float16 and bfloat16 are
/// converted to float32 for each operation on two elements, and its result is rounded. For booleans
/// sum, max and bor are "or", product, min and band are "and", bxor is "exclusive or"; the results
/// are 0 or 1. If an element is NaN, min and max are NaN.
struct ReduceOp {
  enum Kind : std::uint8_t {
    sum,
    /// The mean; integers truncate towards zero. It does not overflow if it fits the type, but for
    /// int64, whose sum wraps around. Not for booleans.
    avg,
    product,
    min,
    max,
    band,        ///< bitwise and; this and the next two are only for integers and booleans
    bor,         ///< bitwise or
    bxor,        ///< bitwise exclusive or
    premul_sum,  ///< each rank multiplies its elements by its factor first; only for floats
  };

  constexpr ReduceOp(Kind of = sum, double by = 1) : kind(of), factor(by) {}

  Kind kind;
  double factor;  ///< only for premul_sum; ranks may have different factors

  /// The factor counts only for premul_sum; in a comparison with a Kind, it does not count.
  friend constexpr bool operator==(const ReduceOp& a, const ReduceOp& b) {
    return a.kind == b.kind && (a.kind != premul_sum || a.factor == b.factor);
  }
  friend constexpr bool operator==(const ReduceOp& a, Kind b) { return a.kind == b; }
};

inline constexpr std::size_t kReduceOps = 9;  ///< number of kinds

/// Returns the operation that multiplies the elements of this rank by `factor` and sums the
/// products.
constexpr ReduceOp premul_sum(double factor) { return {ReduceOp::premul_sum, factor}; }

/// Returns the name that error texts and metrics use, such as "sum".
constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum",  "avg", "product", "min",       "max",
                                         "band", "bor", "bxor",    "premul_sum"};
  static_assert(std::size(kNames) == kReduceOps);
  return op.kind < kReduceOps ? kNames[op.kind] : "unknown";
}

/// Returns whether elements of this type can be combined by `op`.
constexpr bool combines(ReduceOp op, DType dtype) {
  const bool is_float =
      with_dtype(dtype, []<class T>(std::type_identity<T>) { return !std::is_integral_v<T>; });
  switch (op.kind) {
    case ReduceOp::avg:
      return dtype != DType::boolean;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return !is_float;
    case ReduceOp::premul_sum:
      return is_float;
    case ReduceOp::sum:
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::max:
      return true;
  }
  return false;
}

}  // namespace c10dd
