// SPDX-License-Identifier: Apache-2.0
// Reads the resource usage of this process from the kernel.
#pragma once

namespace c10dd::daemon {

struct ProcessUsage {
  double cpu_seconds = 0;  ///< user and system time
  double resident_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;  ///< infinity if there is no limit
};

/// Returns the current usage. Values that cannot be read are 0. Thread-safe.
ProcessUsage process_usage();

}  // namespace c10dd::daemon
