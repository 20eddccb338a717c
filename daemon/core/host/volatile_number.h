// SPDX-License-Identifier: Apache-2.0
// The numbers of runs that live only in memory; see VolatileRuns.
#pragma once

#include "protocol/types.h"

namespace c10dd::core {

/// The number of each volatile run is at least this; all other numbers are below.
inline constexpr JobNumber kFirstVolatile = JobNumber{1} << 63;

constexpr bool is_volatile_number(JobNumber number) { return number >= kFirstVolatile; }

}  // namespace c10dd::core
