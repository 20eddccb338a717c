// SPDX-License-Identifier: Apache-2.0
// Checks before training that the parameters have the same names, dtypes and shapes on all ranks.
// Does not compare their values.
#pragma once

#include <vector>

#include "collectives/process_group.h"

namespace c10dd::ddp {

struct Parameter;

/// A collective operation. If the parameters differ, throws InvalidArgument on every rank. The text
/// names the ranks that differ from rank 0. The text also tells how the lowest of these ranks
/// differs: how many parameters that rank has, or which parameter is the first to differ.
void require_equal_parameters(ProcessGroup& group, const std::vector<Parameter>& parameters);

}  // namespace c10dd::ddp
