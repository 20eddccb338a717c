// SPDX-License-Identifier: Apache-2.0
// The element-wise arithmetic of all_reduce in cpu memory, for every dtype and operation.
#pragma once

#include <cstddef>

#include "collectives/tensor.h"
#include "protocol/types.h"

namespace c10dd::collectives {

/// Stores a[i] op b[i] in out[i] for i < count. `out` may be `a` or `b`; otherwise the arrays must
/// not overlap.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

/// Returns the function for these elements. For avg this is the sum, and the caller must call
/// divide() after the last sum.
ReduceFunction reduce_function(DType dtype, ReduceOp op);

/// Divides each element by `divisor`. The results for integers are truncated towards zero.
void divide(const Tensor& tensor, Rank divisor);

}  // namespace c10dd::collectives
