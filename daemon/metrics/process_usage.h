// SPDX-License-Identifier: Apache-2.0
// What the kernel says this process uses. Values that cannot be read are 0.
#pragma once

namespace c10dd::daemon {

struct ProcessUsage {
  double cpu_seconds = 0;  ///< user and system
  double resident_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;  ///< infinity when there is no limit
};

/// Reads it now; thread-safe.
ProcessUsage process_usage();

}  // namespace c10dd::daemon
