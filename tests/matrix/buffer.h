// SPDX-License-Identifier: Apache-2.0
// The memory of a tensor of a cell, which notices what is written behind the tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "collectives/tensor.h"
#include "tests/matrix/elements.h"

namespace c10dd::matrix {

/// The memory of a tensor, followed by bytes that nobody may change.
class Buffer {
 public:
  Buffer(DType dtype, const Bytes& elements) : dtype_(dtype), bytes_(elements) {
    bytes_.resize(elements.size() + kCanaryBytes, kCanary);
  }

  Tensor tensor() {
    return {.data = bytes_.data(), .count = size() / size_of(dtype_), .dtype = dtype_};
  }
  Tensor part(std::size_t begin, std::size_t count) { return tensor().slice(begin, count); }
  std::span<const std::byte> elements() const { return {bytes_.data(), size()}; }
  bool is_intact() const {
    return std::all_of(bytes_.end() - kCanaryBytes, bytes_.end(),
                       [](std::byte byte) { return byte == kCanary; });
  }

 private:
  static constexpr auto kCanary = std::byte{0xa5};
  static constexpr std::size_t kCanaryBytes = 64;

  std::size_t size() const { return bytes_.size() - kCanaryBytes; }

  DType dtype_;
  Bytes bytes_;
};

inline std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace c10dd::matrix
