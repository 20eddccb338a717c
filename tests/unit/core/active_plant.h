// SPDX-License-Identifier: Apache-2.0
// The fault of the core that a test has planted.
#pragma once

#include <optional>

#include "daemon/core/planted.h"

namespace c10dd::core {

extern std::optional<Planted> active_plant;

}  // namespace c10dd::core
