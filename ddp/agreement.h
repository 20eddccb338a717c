// SPDX-License-Identifier: Apache-2.0
// Checks before training that all ranks have the same parameters: names, dtypes, shapes. Values
// are not compared.
#pragma once

#include <vector>

#include "collectives/process_group.h"

namespace c10dd::ddp {

struct Parameter;

/// A collective operation. If the parameters differ, throws InvalidArgument on every rank: the text
/// names the ranks that differ from rank 0, and the first parameter in which the lowest of these
/// ranks differs.
void require_equal_parameters(ProcessGroup& group, const std::vector<Parameter>& parameters);

}  // namespace c10dd::ddp
