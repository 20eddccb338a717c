// SPDX-License-Identifier: Apache-2.0
// Issues operations to NCCL.
#pragma once

#include <vector>

#include "collectives/nccl/api.h"
#include "collectives/operation.h"

namespace c10dd::collectives::nccl {

/// A communicator, and the stream on which it runs its operations.
struct Channel {
  const Api& api;
  Comm comm;
  void* stream;
  Rank rank;
  Rank size;
};

/// What NCCL has returned. If `status` is neither success nor in_progress, `call` is the function
/// that has failed.
struct Issued {
  Status status = Status::success;
  const char* call = "";
};

/// Operators that were made for premul_sum. They can be destroyed when the operation was issued.
using MadeOps = std::vector<Op>;

/// Issues operations, several of them as one group of NCCL. Their tensors are in the memory of the
/// device. If the status is in_progress, the operations are on the stream only after async_error()
/// has said success. Adds to `made`.
Issued issue(const Channel& channel, const std::vector<const Operation*>& operations,
             MadeOps& made);

}  // namespace c10dd::collectives::nccl
