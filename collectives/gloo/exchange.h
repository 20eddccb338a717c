// SPDX-License-Identifier: Apache-2.0
// The operations with lists of tensors that only move elements: all_gather, gather, scatter and
// all_to_all. Each rank sends each other rank its tensor directly.
#pragma once

#include <gloo/context.h>

#include <cstdint>
#include <memory>

#include "collectives/operation.h"

namespace c10dd::collectives {

/// Blocks until all tensors of this rank were sent and received. `tag` must be equal on all ranks,
/// and different from the tags of operations that may still run on another rank. If two ranks
/// disagree about the size of a tensor, both wait for it in vain.
void exchange(const std::shared_ptr<::gloo::Context>& context, const Operation& operation,
              std::uint32_t tag);

}  // namespace c10dd::collectives
