// SPDX-License-Identifier: Apache-2.0
// Averages integers of 8 to 32 bits by way of 64-bit ones, whose sum does not overflow: at most
// 2^17 ranks times 2^31.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/operation.h"

namespace c10dd::collectives {

/// An operation on wide copies of the tensors of another one.
class WideAverage {
 public:
  /// Returns whether the operation averages integers of 8 to 32 bits.
  static bool suits(const Operation& operation);

  /// Copies the elements. The tensors must outlive this object.
  explicit WideAverage(const Operation& narrow);
  WideAverage(WideAverage&&) = default;

  const Operation& operation() const { return wide_; }
  /// Copies the result into the tensor of the narrow operation. Not for a rank that gets no result.
  void store() const;

 private:
  Tensor widened(const Tensor& narrow);

  std::vector<std::vector<std::int64_t>> memory_;
  Operation wide_;
  Tensor result_;  ///< of the narrow operation
};

}  // namespace c10dd::collectives
