// SPDX-License-Identifier: Apache-2.0
// The page /v1/jobs/{job}: the runs of one job, which ranks have come, and who waits for whom.
#pragma once

#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"

namespace boost::json {
class object;
}

namespace c10dd::daemon {

struct JobPage {
  std::string job;
  std::vector<core::RunReport> runs;
  std::vector<core::LoadReport> loads = {};  ///< its runs that are being loaded
  /// The pages of other daemons about other runs of the job, in the form that is asked for.
  std::vector<std::string> elsewhere = {};
  bool stored = false;        ///< Operations::is_stored()
  std::string trainers = {};  ///< Operations::address_for_trainers()
};

/// Returns one line for each run that is being loaded, and one for each other run, such as
/// "plain-7: 3 joined; ranks seen: [0-2]; 2 requests wait for /default_pg/0//cpu//0/3, of rank 3,
/// not seen". If a run does not go on, a line with its diagnosis stands before it.
std::string text_of(const JobPage& page);

/// Returns the page in JSON.
std::string json_of(const JobPage& page);

/// Returns {"rows","bytes","seconds"}, and "of_rows" if the engine knows how many rows there are.
boost::json::object load_json(const core::LoadReport& load);

}  // namespace c10dd::daemon
