// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/core/active_plant.h"

namespace c10dd::core {

std::optional<Planted> active_plant;

bool planted(Planted one) { return active_plant == one; }

}  // namespace c10dd::core
