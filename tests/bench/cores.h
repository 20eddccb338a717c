// SPDX-License-Identifier: Apache-2.0
// Keeps the load and the servers on cores of their own, because the scheduler's choice makes a
// factor of nine.
#pragma once

#include <sched.h>

#include "tests/bench/line.h"

namespace c10dd::bench {

/// Keeps this thread, and the processes that it starts, on the first core or on all others.
/// Restores the cores at the end.
class Cores {
 public:
  explicit Cores(bool first) {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0) fail_with_errno("sched_getaffinity");
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    bool seen = false;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_)) continue;
      if (seen != first) CPU_SET(core, &chosen);
      seen = true;
    }
    if (CPU_COUNT(&chosen) > 0) ::sched_setaffinity(0, sizeof chosen, &chosen);
  }
  ~Cores() { ::sched_setaffinity(0, sizeof before_, &before_); }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace c10dd::bench
