// SPDX-License-Identifier: Apache-2.0
// Two sessions, and job time in seconds, for tests of one part of a job.
#pragma once

#include <chrono>
#include <cstdint>

#include "protocol/types.h"

namespace c10dd::core {

inline constexpr SessionId kFirst{0, 1};
inline constexpr SessionId kSecond{0, 2};

/// Returns the job time at so many seconds.
constexpr TimePoint at(std::int64_t time) { return TimePoint(std::chrono::seconds(time)); }

}  // namespace c10dd::core
