// SPDX-License-Identifier: Apache-2.0
// A job as its host holds it. Belongs to one loop; other threads hold JobRefs only to hand them
// back to a host.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/commit_gate.h"
#include "daemon/core/host/host_loop.h"
#include "daemon/core/host/reply_sink.h"
#include "daemon/core/job.h"
#include "store/job_load.h"

namespace c10dd::core {

class JobHost;

/// What a job has had of its loop in one turn.
struct TurnUse {
  static constexpr std::size_t kRequests = 2'048;
  static constexpr std::size_t kBytes = 1024 * 1024;

  std::size_t requests = 0;
  std::size_t bytes = 0;

  void add(std::size_t size) {
    ++requests;
    bytes += size;
  }
  void answered(std::size_t size) { bytes += size; }
  /// The job's connections read no further before the next turn, so that the others get theirs.
  bool spent() const { return requests >= kRequests || bytes >= kBytes; }
};

/// A job that a host serves, or is loading.
struct JobSlot {
  struct Attachment {
    std::shared_ptr<ReplySink> sink;
    std::uint32_t channel = 0;
    std::uint64_t number = 0;  ///< of all of the job's; answers held for an older one do not leave
    std::uint64_t connection = 0;  ///< Origin::connection
  };

  /// A hello whose refusal waits at the gate: it shows the job's state.
  struct Refused {
    std::shared_ptr<ReplySink> sink;
    std::uint32_t channel = 0;
    std::uint64_t sequence = 0;
  };

  JobSlot(JobHost& of, std::string job_name, std::string run_name, JobNumber its)
      : owner(of), name(std::move(job_name)), run(std::move(run_name)), number(its) {}

  JobHost& owner;  ///< this and the next three may be read on any thread
  const std::string name;
  const std::string run;
  const JobNumber number;
  Epoch epoch = 0;
  bool serving = false;
  bool dropped = false;  ///< the host has given it up
  std::unique_ptr<Job> job;
  std::unique_ptr<CommitGate> gate;
  std::vector<Row> rows;     ///< not yet handed to the engine
  Revision handed_over = 0;  ///< revision up to which rows were handed over
  std::unordered_map<SessionId, Attachment, SessionIdHash> attached;
  std::map<std::uint64_t, Refused> refused;  ///< by number, like attachments
  std::uint64_t attachments = 0;             ///< so far, with the refused
  std::vector<std::function<void()>> when_loaded;
  std::deque<store::JobPiece> pieces;  ///< that are not restored yet
  Result<void> restored;               ///< so far
  std::string load_failure;            ///< why it is not served
  /// Its rows are damaged: nobody is let in, and it is not loaded again, before then.
  std::optional<SteadyTime> damaged_until;
  bool touched = false;               ///< in this turn
  std::optional<TimePoint> deadline;  ///< its place in JobHost::deadlines_
  TurnUse use;
  std::size_t bytes = 0;     ///< as it was last told to the growth gate
  std::uint64_t lookup = 0;  ///< the newest JobLocation::lookup that a hello came with
  bool in_use = false;       ///< the directory was not told that the last session ended
  bool idle = false;         ///< its metric series have ended, since nobody uses it
};
using JobRef = std::shared_ptr<JobSlot>;

/// What is told of a job that is loaded.
struct JobReport {
  std::string name;
  std::string run;
  JobNumber number = 0;
  Revision revision = 0;
  JobStats stats;
};

}  // namespace c10dd::core
