// SPDX-License-Identifier: Apache-2.0
// The clock of the client.
#pragma once

#include <ctime>

#include "protocol/types.h"

namespace c10dd::client {

/// Returns the time of a steady clock that also runs while the machine is suspended.
inline TimePoint boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace c10dd::client
