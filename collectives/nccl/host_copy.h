// SPDX-License-Identifier: Apache-2.0
// HostCopy: runs an operation on tensors in cpu memory, which NCCL cannot use, through memory of
// the device. For small tensors, such as the sizes of other tensors: large ones are better on the
// device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/nccl/cuda_driver.h"
#include "collectives/operation.h"

namespace c10dd::collectives::nccl {

/// Page-locked memory of the host, and as much memory of a device.
struct HostCopyBlock {
  std::size_t bytes = 0;
  void* host = nullptr;
  void* device = nullptr;
};

/// The memory of one operation. It comes from blocks that are kept until the process exits, because
/// freeing memory of a device waits for its operations, also for those that hang.
class HostCopy {
 public:
  /// Copies the inputs of `operation` into page-locked memory, and replaces its tensors by tensors
  /// in memory of the device. `rank` is that of this process, because only the root of a reduce
  /// gets the result. Fails if there is not enough memory.
  static Result<std::unique_ptr<HostCopy>> begin(const CudaDevice& device, Operation& operation,
                                                 Rank rank);

  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy();

  /// Put the copies between host and device on the stream, before and after the operation.
  Result<void> copy_in(void* stream) const;
  Result<void> copy_out(void* stream) const;

  /// Copies the outputs to the tensors of the caller. Called when copy_out() is over.
  void finish() const;

 private:
  /// A tensor of the caller, and its place in the block.
  struct Part {
    Tensor tensor;
    std::size_t offset;
  };

  HostCopy(const CudaDevice& device, HostCopyBlock block) : device_(device), block_(block) {}

  const CudaDevice& device_;
  const HostCopyBlock block_;
  std::size_t in_end_ = 0;     // end of the parts that are copied in
  std::size_t out_begin_ = 0;  // begin of the parts that are copied out
  std::size_t end_ = 0;
  std::vector<Part> outputs_;
};

}  // namespace c10dd::collectives::nccl
