// SPDX-License-Identifier: Apache-2.0
// Compares what the ranks of one barrier or exchange ask for. All must ask for the same.
#pragma once

#include <optional>

#include "daemon/core/barriers/barriers.h"
#include "protocol/error.h"

namespace c10dd::core {

/// What an arrival asks for in another way than the arrivals before it.
enum class Difference { world_size, shape, root, participants };

/// Returns the first difference between an arrival and a barrier, or nullopt if there is none. Does
/// not compare the participants of a complete barrier, which does not know them any more.
std::optional<Difference> difference(const BarrierState& barrier, const Arrival& arrival);

/// Returns the failure size_mismatch, which names the process of `rank`, the ranks that arrived
/// before it, the process of one of them, and what each side asked for.
Failure disagreement(const BarrierKey& key, const BarrierState& barrier, Rank rank,
                     const Arrival& arrival, Difference what, const Sessions& sessions);

}  // namespace c10dd::core
