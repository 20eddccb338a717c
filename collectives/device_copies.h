// SPDX-License-Identifier: Apache-2.0
// DeviceCopies: copies between memory of a device and memory of the host, for backends that use
// only memory of the host. A module that knows a device implements it.
#pragma once

#include "collectives/tensor.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Thread-safe.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;

  /// Copies the elements of a tensor to the host, when its stream has done what it has now. Blocks
  /// until they are there.
  virtual Result<void> to_host(void* host, const Tensor& tensor) const = 0;

  /// Copies elements into the first part of a tensor. Blocks until they are there.
  virtual Result<void> to_device(const Tensor& tensor, const void* host,
                                 std::size_t bytes) const = 0;
};

}  // namespace c10dd::collectives
