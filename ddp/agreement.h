// SPDX-License-Identifier: Apache-2.0
// Checks before training that all ranks have the same parameters: names, dtypes, shapes. Values
// are not compared.
#pragma once

#include <vector>

#include "collectives/process_group.h"

namespace c10dd::ddp {

struct Parameter;

/// Collective. Throws InvalidArgument on every rank alike, naming the ranks that differ from rank 0
/// and the first parameter in which the first of them does.
void require_equal_parameters(ProcessGroup& group, const std::vector<Parameter>& parameters);

}  // namespace c10dd::ddp
