// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic of all_reduce on cpu memory, for every dtype and operation, shared by the
// backends that reduce themselves.
#pragma once

#include <cstddef>

#include "collectives/tensor.h"
#include "protocol/types.h"

namespace c10dd::collectives {

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`, no other overlap.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

/// For avg this is the sum: the caller divides once, at the end.
ReduceFunction reduce_function(DType dtype, ReduceOp op);

/// tensor[i] /= divisor, truncating for integers.
void divide(const Tensor& tensor, Rank divisor);

}  // namespace c10dd::collectives
