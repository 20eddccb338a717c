// SPDX-License-Identifier: Apache-2.0
// Tensor: a view of the memory that a collective reads and writes, with the type of the elements,
// the device and the owner of the memory. A Tensor never copies data. Standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <c10dd/dtype.h>
#include <c10dd/reduce_op.h>

namespace c10dd {

/// The device whose memory a tensor uses. See ProcessGroup for tensors in cuda memory.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };

  Kind kind = Kind::cpu;
  int index = 0;  ///< number of the device among the devices of this kind

  bool operator==(const Device&) const = default;
};

/// A contiguous array of `count` elements. A tensor has no shape: collectives treat it as flat.
/// Copying a Tensor copies the view, not the elements. Until the Work of the collective has ended,
/// the memory must stay valid, and the caller must not read or write it. `owner` keeps the memory
/// alive; if `owner` is null, the caller must do so.
struct Tensor {
  void* data = nullptr;          ///< first element; may be null only if `count` is 0
  std::size_t count = 0;         ///< number of elements
  DType dtype = DType::float32;  ///< type of each element
  Device device = {};
  /// The cuda stream (CUstream, cudaStream_t) on which the caller uses the memory; null is the
  /// default stream. Not used for cpu memory.
  void* stream = nullptr;
  std::shared_ptr<void> owner = {};  ///< keeps the memory alive; if null, the caller must do that

  /// Returns the size of all elements, in bytes.
  std::size_t bytes() const { return count * size_of(dtype); }

  /// Returns a view of `length` elements that begins at element `offset` and shares the owner. Does
  /// not check the range: `offset + length` must be at most `count`.
  Tensor slice(std::size_t offset, std::size_t length) const {
    Tensor part = *this;
    part.data = static_cast<std::byte*>(data) + offset * size_of(dtype);
    part.count = length;
    return part;
  }
};

/// Returns a Tensor of the `count` elements that begin at `data` in cpu memory. It has no owner:
/// the caller must keep the memory until the Work has ended.
template <class T>
Tensor tensor_of(T* data, std::size_t count) {
  if constexpr (std::is_const_v<T>) {
    static_assert(
        !std::is_const_v<T>,
        "c10dd::tensor_of needs writable memory for the collective: this memory is const");
    return {};
  } else {
    return Tensor{.data = data, .count = count, .dtype = dtype_of<T>()};
  }
}

/// Returns a Tensor of all elements of `values`. It has no owner: the caller must keep the vector,
/// and must not resize it, until the Work has ended.
template <class T>
Tensor tensor_of(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, bool>) {
    static_assert(!std::is_same_v<T, bool>,
                  "c10dd::tensor_of needs an array of elements, but std::vector<bool> stores bits: "
                  "use std::vector<std::uint8_t>, and set dtype to DType::boolean");
    return {};
  } else {
    return tensor_of(values.data(), values.size());
  }
}

/// Makes the compiler reject a const or temporary vector, with an error that says why.
template <class T>
Tensor tensor_of(const std::vector<T>&) {
  static_assert(
      !std::is_same_v<T, T>,
      "c10dd::tensor_of needs a writable vector that outlives the collective: this vector is a "
      "temporary or const");
  return {};
}

}  // namespace c10dd
