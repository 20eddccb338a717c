// SPDX-License-Identifier: Apache-2.0
// What the hosts of a daemon ask the directory of jobs. DirectoryHost is one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/core/host/host_loop.h"
#include "protocol/error.h"
#include "protocol/ops.h"
#include "store/engine.h"

namespace c10dd::core {

class JobHost;

/// The directory's reply to a lookup: it says which host serves the job.
struct JobLocation {
  JobHost* host = nullptr;
  JobNumber number = 0;
  std::uint64_t generation = 0;  ///< of the engine
  std::uint64_t lookup = 0;  ///< lookup number of the job, see directory_host.h; 0: JobAsker::looks
  store::Precondition entry = {};  ///< in a fleet: ClaimTerms::entry
};

/// Who asks for the host of a job.
struct JobAsker {
  std::string client = {};     ///< address; empty: this daemon
  bool may_make = true;        ///< may make the job if it is new
  bool looks = false;          ///< only reads: a job that is known is not marked as in use
  std::string principal = {};  ///< pays for a new job; empty: nobody is authenticated
};

/// What to do about a job that another daemon owns.
struct ClaimDecision {
  enum class Kind : std::uint8_t {
    redirect,   ///< the owner is alive: its clients go to `addresses`
    wait,       ///< the owner's silence is counted, or it hands its jobs over: ask again later
    take_over,  ///< the owner was silent for its lease: claim the job over it
  };
  Kind kind = Kind::wait;
  std::vector<std::string> addresses = {};
  Duration again{0};       ///< of `wait`: when to ask again
  std::string owner = {};  ///< names the owner in texts
};

/// Thread-safe. Callbacks run on the loop `back`.
class JobDirectory {
 public:
  virtual ~JobDirectory() = default;

  /// Finds the host of the job that a hello names. If the job is new, gives it a number; in a
  /// fleet, later if the client has made many; see NewJobPace. Fails with `unavailable` if the
  /// engine is not open or the client would have to wait too long, with not_found if the run does
  /// not exist and the client may not make it, or only PlainRuns gives such names, and with the
  /// failures of Directory::open().
  virtual void locate(const std::string& job, const std::string& run, const JobAsker& asker,
                      HostLoop& back, std::function<void(Result<JobLocation>)> then) = 0;

  /// Handles a host's report that the last session of a job has ended. `empty` is true if the job
  /// has no rows worth keeping. The report is ignored if the directory has given out a newer lookup
  /// number for the job.
  virtual void report_idle(const JobLocation& location, bool empty) = 0;

  /// Decides what this daemon does about the owner that has refused its claim.
  virtual void decide_claim(const store::Holder& holder, HostLoop& back,
                            std::function<void(ClaimDecision)> then) = 0;
  /// Notes that a host no longer serves a job. Another daemon may own it, or nobody.
  virtual void note_dropped(JobNumber job) = 0;
  /// Notes that a claim found a job gone from the directory of the engine.
  virtual void found_gone() = 0;

  /// Leases an endpoint of a job, or renews the one of this name, which keeps its port.
  virtual void lease_endpoint(const std::string& job, const LeaseEndpoint& request, HostLoop& back,
                              std::function<void(Result<EndpointLease>)> then) = 0;
};

}  // namespace c10dd::core
