// SPDX-License-Identifier: Apache-2.0
// Checks before training that the parameters have the same names, dtypes and shapes on all ranks.
// Does not compare their values.
#pragma once

#include <vector>

#include "collectives/process_group.h"

namespace c10dd::ddp {

struct Parameter;

/// A collective operation. Throws InvalidArgument on every rank if the number, names, dtypes or
/// shapes of the parameters differ between ranks. If the numbers differ, the text of the exception
/// lists the ranks whose number is not that of rank 0, and tells the number of the first such rank.
/// Otherwise the text lists the ranks whose parameters differ from those of rank 0, and names the
/// first parameter in which the first such rank differs. Each rank describes its own parameter.
void require_equal_parameters(ProcessGroup& group, const std::vector<Parameter>& parameters);

}  // namespace c10dd::ddp
