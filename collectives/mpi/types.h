// SPDX-License-Identifier: Apache-2.0
// The datatypes and operators of MPI for those of c10dd.
#pragma once

#include <mpi.h>

#include <climits>
#include <cstddef>

#include "collectives/dtype.h"
#include "collectives/reduce_op.h"

namespace c10dd::collectives::mpi {

inline constexpr std::size_t kCountMax = INT_MAX;  ///< elements of one call of MPI

/// Returns the datatype of one element. MPI has no 16-bit floats, so they are two bytes.
/// Thread-safe.
MPI_Datatype type_of(DType dtype);

/// Returns the operator that combines elements of this type. The tensors must have been prepared,
/// see reduce.h: booleans are 0 or 1, and avg and premul_sum are sums. Thread-safe.
MPI_Op op_of(ReduceOp::Kind kind, DType dtype);

}  // namespace c10dd::collectives::mpi
