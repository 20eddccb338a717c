// SPDX-License-Identifier: Apache-2.0
// Creates communicators on the worker's thread.
#pragma once

#include <functional>
#include <string>

#include "collectives/nccl/cuda_driver.h"
#include "collectives/nccl/library.h"
#include "collectives/nccl/operations.h"
#include "collectives/nccl/worker.h"

namespace c10dd::collectives::nccl {

/// Creates a communicator by begin(&comm), or takes the one that `begin` stores there. Blocks until
/// NCCL has connected all ranks, at most until `deadline`; then the communicator is aborted.
/// `group` is the name of the process group, for errors.
Result<Comm> open_comm(const Library& library, const CudaDevice& device,
                       std::function<Issued(Comm*)> begin, const std::string& group,
                       Worker::Clock::time_point deadline);

}  // namespace c10dd::collectives::nccl
