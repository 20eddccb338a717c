// SPDX-License-Identifier: Apache-2.0
// The jobs of a host that go to other daemons of the fleet.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/core/host/host_context.h"
#include "daemon/core/host/job_dropper.h"
#include "daemon/core/host/job_table.h"

namespace c10dd::core {

class JobMoves {
 public:
  JobMoves(const HostContext& context, JobTable& table, JobDropper& dropper)
      : context_(context), table_(table), dropper_(dropper) {}

  /// As JobHost::move().
  void move(JobNumber number, JobMove move);
  /// Asks the engine to hand over the jobs that nothing holds back any more.
  void hand_over();
  /// As JobHost::handed_over().
  void handed_over(std::uint64_t generation, const JobRef& slot, const Result<void>& done);
  /// Ends the move of a job that the host has dropped, if there is one.
  static void end(JobSlot& slot, const Failure& reason);
  bool empty() const { return moving_.empty(); }
  void forget() { moving_.clear(); }

 private:
  const HostContext& context_;
  JobTable& table_;
  JobDropper& dropper_;
  std::vector<JobRef> moving_;  ///< jobs that the engine was not asked to hand over yet
};

}  // namespace c10dd::core
