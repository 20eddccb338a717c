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

/// Returns the function that applies `op` to arrays of `dtype`, or null unless combines(op, dtype).
/// Each rank must call prepare() on its tensor before the first call of the function, and finish()
/// on the result.
ReduceFunction reduce_function(DType dtype, ReduceOp op);

/// Multiplies each element by the factor of premul_sum, and floats by 1 / `size` for avg, so that
/// their sum does not overflow if the average does not, as NCCL does. Makes each boolean 0 or 1.
/// Otherwise does nothing.
void prepare(const Tensor& tensor, ReduceOp op, Rank size);

/// Divides each integer by `size` for avg, truncated towards zero. Otherwise does nothing. Integers
/// below 64 bits are averaged by WideAverage, because their sums may overflow.
void finish(const Tensor& tensor, ReduceOp op, Rank size);

}  // namespace c10dd::collectives
