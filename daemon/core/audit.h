// SPDX-License-Identifier: Apache-2.0
// The audits recount, from scratch, what the parts of a job keep as sums and as second indexes.
// They look at everything, so they are for tests and the simulator.
#pragma once

#include <optional>
#include <string>

namespace c10dd::core {

/// The first inconsistency, as text; nothing if all is well.
using Finding = std::optional<std::string>;

}  // namespace c10dd::core
