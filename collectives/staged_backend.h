// SPDX-License-Identifier: Apache-2.0
// Lets a backend that uses only memory of the host run operations on tensors of a device.
#pragma once

#include <memory>

#include "collectives/backend.h"

namespace c10dd::collectives {

/// Returns a backend that runs operations on tensors of the host on `inner` as they are, and copies
/// other tensors to the host before, and back afterwards. Starting such an operation blocks until
/// the stream of its tensors has done what it has; the thread that ends it copies its results back.
/// `inner` keeps the owners of tensors that it still uses after a failure.
std::unique_ptr<Backend> with_staging(std::unique_ptr<Backend> inner);

}  // namespace c10dd::collectives
