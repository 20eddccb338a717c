// SPDX-License-Identifier: Apache-2.0
// DType: the types that the elements of a tensor can have. Standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <c10dd/float16.h>
#include <c10dd/language.h>

namespace c10dd {

/// Type of one element. A boolean has one byte; every value except 0 counts as true.
enum class DType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,
  float16,
  bfloat16,
  float32,
  float64,
};

inline constexpr std::size_t kDTypes = 10;  ///< number of types

/// Calls `f` with std::type_identity<T>(), where T is the C++ type of `dtype`, and returns the
/// result. All code that depends on the type of the elements goes through this function.
template <class F>
constexpr decltype(auto) with_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8:
      return f(std::type_identity<std::int8_t>());
    case DType::int16:
      return f(std::type_identity<std::int16_t>());
    case DType::int32:
      return f(std::type_identity<std::int32_t>());
    case DType::int64:
      return f(std::type_identity<std::int64_t>());
    case DType::uint8:
      return f(std::type_identity<std::uint8_t>());
    case DType::boolean:
      return f(std::type_identity<bool>());
    case DType::float16:
      return f(std::type_identity<Float16>());
    case DType::bfloat16:
      return f(std::type_identity<BFloat16>());
    case DType::float32:
      return f(std::type_identity<float>());
    case DType::float64:
      break;
  }
  return f(std::type_identity<double>());
}

/// Returns whether `dtype` is one of the enumerators. A number that was cast to DType may be none.
constexpr bool is_dtype(DType dtype) { return static_cast<std::size_t>(dtype) < kDTypes; }

/// Returns the size of one element, in bytes.
constexpr std::size_t size_of(DType dtype) {
  return with_dtype(dtype, []<class T>(std::type_identity<T>) { return sizeof(T); });
}

/// Returns the name that error texts and metrics use, such as "float32".
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"int8", "int16",   "int32",    "int64",   "uint8",
                                         "bool", "float16", "bfloat16", "float32", "float64"};
  static_assert(std::size(kNames) == kDTypes);
  return is_dtype(dtype) ? kNames[static_cast<std::size_t>(dtype)] : "unknown";
}

/// Returns the DType of the C++ type T. Does not compile if there is no DType for T.
template <class T>
constexpr DType dtype_of() {
  constexpr std::size_t found = [] {
    const auto is_t = []<class Element>(std::type_identity<Element>) {
      return std::is_same_v<T, Element>;
    };
    std::size_t i = 0;
    while (i < kDTypes && !with_dtype(static_cast<DType>(i), is_t)) ++i;
    return i;
  }();
  static_assert(found < kDTypes,
                "c10dd has no DType for this element type; use float, double, "
                "c10dd::Float16, c10dd::BFloat16, std::int8_t, std::int16_t, std::int32_t, "
                "std::int64_t, std::uint8_t or bool");
  return static_cast<DType>(found);
}

}  // namespace c10dd
