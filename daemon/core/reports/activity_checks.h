// SPDX-License-Identifier: Apache-2.0
// Checks of a report of activity that need no other report: names, bounds, and whether its numbers
// fit together.
#pragma once

#include "protocol/activity_ops.h"
#include "protocol/error.h"

namespace c10dd::core {

/// Fails with too_large or invalid_argument.
Result<void> check_values(const Activity& activity);

}  // namespace c10dd::core
