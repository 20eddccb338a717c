// SPDX-License-Identifier: Apache-2.0
// NCCL's types and operators for those of c10dd.
#pragma once

#include <optional>

#include "collectives/dtype.h"
#include "collectives/nccl/api.h"
#include "collectives/reduce_op.h"

namespace c10dd::collectives::nccl {

/// Returns the type in which NCCL computes with elements of `dtype`, or nullopt. A boolean is a
/// number that is 0 or not.
std::optional<Type> type_of(DType dtype);

/// Returns the operator that combines elements of `dtype` by `kind`, or nullopt if NCCL has none.
/// For premul_sum, returns `sum`: each call needs an operator of its own, which has the factor.
std::optional<Op> op_of(ReduceOp::Kind kind, DType dtype);

}  // namespace c10dd::collectives::nccl
