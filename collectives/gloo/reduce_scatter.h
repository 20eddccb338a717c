// SPDX-License-Identifier: Apache-2.0
// A reduce_scatter over the connections of a Gloo context. Gloo has one of its own, but that is not
// used, because it was reported to return wrong data.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "collectives/tensor.h"

namespace c10dd::collectives {

/// Reduces `input` over all ranks, and stores this rank's part of the result in `output`; see
/// ProcessGroup::reduce_scatter_single(). A ring of size - 1 steps; each rank sends (size - 1) /
/// size of its input (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009). Throws what a wait of the context throws.
void ring_reduce_scatter(const std::shared_ptr<::gloo::Context>& context, const Tensor& output,
                         const Tensor& input, ReduceOp op, std::uint32_t tag);

}  // namespace c10dd::collectives
