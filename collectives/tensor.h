// SPDX-License-Identifier: Apache-2.0
// Memory that a collective reads and writes: Tensor and the words that describe it. Standard
// library only. A Tensor never copies data; whoever built it says who owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include <c10dd/language.h>

namespace c10dd {

enum class DType : std::uint8_t { float32, float64, int8, uint8, int32, int64 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
      return 1;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"float32", "float64", "int8", "uint8", "int32", "int64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// How all_reduce combines elements. avg is the sum divided by the group's size; for integers the
/// division truncates. Integer sums and products wrap around.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max };

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "product", "min", "max"};
  return kNames[static_cast<std::size_t>(op)];
}

/// Where memory lives.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };

  Kind kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

/// A contiguous run of `count` elements. `owner`, where set, keeps the memory alive for as long as
/// a backend may touch it; without an owner the caller guarantees that until the Work has ended.
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::float32;
  Device device = {};
  void* stream = nullptr;  ///< of a device that has streams: the one that orders this memory
  std::shared_ptr<void> owner = {};

  std::size_t bytes() const { return count * size_of(dtype); }

  /// `count` elements from `offset` on, sharing the owner.
  Tensor slice(std::size_t offset, std::size_t length) const {
    Tensor part = *this;
    part.data = static_cast<std::byte*>(data) + offset * size_of(dtype);
    part.count = length;
    return part;
  }
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::float64;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return DType::int8;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::uint8;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::int32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>,
                  "c10dd has no DType for this element type; it has one for float, double, "
                  "std::int8_t, std::uint8_t, std::int32_t and std::int64_t");
    return DType::int64;
  }
}

/// A view without an owner: the caller keeps the memory until the Work has ended.
template <class T>
Tensor tensor_of(T* data, std::size_t count) {
  if constexpr (std::is_const_v<T>) {
    static_assert(!std::is_const_v<T>,
                  "c10dd::tensor_of needs memory that a collective may write into: this is const");
    return {};
  } else {
    return Tensor{.data = data, .count = count, .dtype = dtype_of<T>()};
  }
}

template <class T>
Tensor tensor_of(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, bool>) {
    return Tensor{.dtype = dtype_of<T>()};  // which says what there is instead
  } else {
    return tensor_of(values.data(), values.size());
  }
}

/// Taken by a vector that is const or a temporary, so that the compiler says it in one sentence.
template <class T>
Tensor tensor_of(const std::vector<T>&) {
  static_assert(
      !std::is_same_v<T, T>,
      "c10dd::tensor_of needs a vector that outlives the collective and that it may write into: "
      "this one is a temporary or const");
  return {};
}

}  // namespace c10dd
