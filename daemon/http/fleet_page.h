// SPDX-License-Identifier: Apache-2.0
// The pages about several daemons: /v1/daemons, the owners in /v1/jobs, and the request and reply
// of a move.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/fleet/run_owners.h"
#include "daemon/core/host/job_slot.h"
#include "daemon/http/http_wire.h"

namespace c10dd::daemon {

/// The page /v1/daemons.
struct DaemonsPage {
  struct Row {
    std::vector<std::string> addresses;
    std::string version;
    std::optional<Duration> lease;  ///< nothing: the daemon shares its engine with no other
    Duration silent{0};
    bool draining = false;
    bool here = false;
    std::size_t jobs = 0;  ///< runs that it owns
  };
  std::vector<Row> daemons;
  std::string problem;  ///< why it is not known how many jobs they own; empty if it is known
};
std::string text_of(const DaemonsPage& page);
std::string json_of(const DaemonsPage& page);

/// The page /v1/jobs.
struct JobsPage {
  std::vector<core::JobReport> served;       ///< by this daemon
  std::vector<core::LoadReport> loads = {};  ///< this daemon is loading them
  /// In a fleet: all runs with their owners. Otherwise empty.
  std::vector<core::RunOwner> owners;
  /// In a fleet: the addresses of this daemon, which owns each plain run that it serves.
  std::vector<std::string> self = {};
  std::string problem;  ///< why the owners are not known; empty if they are known
};
std::string json_of(const JobsPage& page);

/// Reads the body of a move: {"to": "host:port"}.
Result<std::string> target_of(const HttpRequest& request);

/// What a daemon has done to move a job.
struct MoveReport {
  std::string job;
  std::string to;
  std::vector<std::string> runs;  ///< names of the runs that were moved
  std::string note;               ///< why there was nothing to move; may be empty
};
/// `elsewhere` has the replies of other daemons that had runs of the job.
std::string json_of(const MoveReport& report, const std::vector<std::string>& elsewhere);

}  // namespace c10dd::daemon
