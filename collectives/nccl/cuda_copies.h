// SPDX-License-Identifier: Apache-2.0
// The DeviceCopies of CUDA.
#pragma once

#include "collectives/device_copies.h"

namespace c10dd::collectives::nccl {

/// Returns the copies of this process. Fails with `unsupported` if CUDA cannot be used.
Result<const DeviceCopies*> cuda_copies();

}  // namespace c10dd::collectives::nccl
