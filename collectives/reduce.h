// SPDX-License-Identifier: Apache-2.0
// The element-wise arithmetic of all_reduce in cpu memory, for every dtype and operation.
#pragma once

#include <cstddef>

#include "collectives/tensor.h"
#include "protocol/types.h"

namespace c10dd::collectives {

/// A function that combines two arrays of `count` elements: out[i] = a[i] op b[i]. `out` may be the
/// same array as `a` or `b`; otherwise the arrays must not overlap.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

/// Returns the function that applies `op` to arrays of `dtype`. For avg, returns the function for
/// sum; the caller must call divide() after the last sum.
ReduceFunction reduce_function(DType dtype, ReduceOp op);

/// Divides each element by `divisor`. Integer results are truncated towards zero.
void divide(const Tensor& tensor, Rank divisor);

}  // namespace c10dd::collectives
