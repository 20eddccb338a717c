// SPDX-License-Identifier: Apache-2.0
// What the parts of a JobHost ask of the host because it concerns several parts.
#pragma once

#include <string>

#include "daemon/core/host/job_slot.h"

namespace c10dd::core {

class JobDropper {
 public:
  /// Stops serving a job, and ends its sessions and its move with `reason`. Has no effect if the
  /// job was dropped before. `slot` must be the caller's own reference, because the host has none
  /// afterwards.
  virtual void drop(const JobRef& slot, const Failure& reason) = 0;
  /// Drops the jobs as JobHost::engine_lost() does, then asks the shell for another engine.
  /// `rolled_back` is as in HostShell::lose_engine().
  virtual void lose_engine(const std::string& why, bool rolled_back) = 0;

 protected:
  ~JobDropper() = default;
};

}  // namespace c10dd::core
