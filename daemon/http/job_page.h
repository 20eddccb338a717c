// SPDX-License-Identifier: Apache-2.0
// The page /v1/jobs/{job}: the runs of one job, which ranks have come, and who waits for whom.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"

namespace c10dd::daemon {

struct JobPage {
  std::string job;
  std::vector<core::RunReport> runs;
  /// The pages of other daemons about other runs of the job, in the form that is asked for.
  std::vector<std::string> elsewhere = {};
  bool stored = false;        ///< Operations::is_stored()
  std::string trainers = {};  ///< Operations::address_for_trainers()
};

/// Returns one line for each run, such as "plain-7: 3 joined; ranks seen: [0-2]; 2 requests wait
/// for /default_pg/0//cpu//0/3, of rank 3, not seen". If a run does not go on, a line with its
/// diagnosis stands before it.
std::string text_of(const JobPage& page);

/// Returns the page in JSON.
std::string json_of(const JobPage& page);

}  // namespace c10dd::daemon
