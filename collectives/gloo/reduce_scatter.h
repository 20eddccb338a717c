// SPDX-License-Identifier: Apache-2.0
// A reduce_scatter over the connections of a Gloo context. Gloo has one of its own, but that is not
// used, because it was reported to return wrong data.
#pragma once

#include <gloo/context.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/tensor.h"

namespace c10dd::collectives {

/// Reduces parts[i] over all ranks, for each rank i, and stores the result in the `output` of rank
/// i; see ProcessGroup::reduce_scatter(). The sizes of the parts are equal on all ranks. A ring of
/// size - 1 steps; each rank sends (size - 1) / size of its input (Patarasu and Yuan, "Bandwidth
/// optimal all-reduce algorithms for clusters of workstations", 2009). Throws what a wait of the
/// context throws.
void ring_reduce_scatter(const std::shared_ptr<::gloo::Context>& context, const Tensor& output,
                         const std::vector<Tensor>& parts, ReduceOp op, std::uint32_t tag);

}  // namespace c10dd::collectives
