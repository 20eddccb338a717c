// SPDX-License-Identifier: Apache-2.0
// What a JobHost needs from the shell around it, and the events that it reports to the shell. The
// daemon implements the interface with its engine's thread, metrics and log, the simulator with its
// disk and records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "daemon/core/host/job_slot.h"
#include "store/commit_batch.h"
#include "store/job_load.h"

namespace c10dd::core {

// ---- events, for metrics and the log -----------------------------------------------------------

/// Event: a job was loaded, and the host now serves it.
struct JobServed {};
struct JobLoadFailed {
  std::string reason;
};
/// Event: another daemon was silent for its lease, and this one claims its job.
struct JobTakenOver {
  std::string owner;
  Epoch epoch = 0;            ///< of the silent owner
  std::uint64_t process = 0;  ///< the silent owner
};
/// Event: from now on, the metrics show the job (`counted`), or do not show it any more.
struct JobCounted {
  bool counted = false;
};
/// Event: a batch with rows has ended, and its outcome is known.
struct BatchCommitted {
  std::size_t rows = 0;
  Duration took{0};
};
/// Event: the rows of a job were not committed, or the job's ownership was not confirmed.
struct CommitFailed {
  store::Outcome outcome;
};
using HostEvent =
    std::variant<JobServed, JobLoadFailed, JobTakenOver, JobCounted, BatchCommitted, CommitFailed>;

/// Called on the thread of the host's loop. An implementation must not call the host directly: it
/// must post the call to the loop.
class HostShell {
 public:
  virtual ~HostShell() = default;

  /// Hands a batch to the engine. The result goes to JobHost::committed().
  virtual void commit(store::CommitBatch batch) = 0;
  /// Reads a job from the engine in pieces. The pieces of `load` go to JobHost::loaded().
  virtual void load(const JobRef& slot, std::shared_ptr<store::JobLoad> load) = 0;
  /// Makes the daemon `process` the owner of a job. The result goes to JobHost::handed_over().
  virtual void hand_over(const JobRef& slot, std::uint64_t process) = 0;
  /// Closes the failed engine of this generation, and opens the engine again. The host calls this
  /// function after it has dropped its jobs. `rolled_back`: a job has found less in the engine
  /// than was durable.
  virtual void lose_engine(std::uint64_t generation, const std::string& why, bool rolled_back) = 0;
  /// Reports that the rows of a job are damaged.
  virtual void report_damage(const std::string& what) = 0;

  /// Reports a step of a job. `from` and `sequence` name the request that caused the step. `from`
  /// is null if something else caused it, for example a deadline.
  virtual void performed(const JobSlot& slot, const Effects& effects, const Origin* from,
                         std::uint64_t sequence) = 0;
  /// Reports a reply that the commit gate has released, even if the host cannot send the reply
  /// because its session is no longer attached.
  virtual void released(const OutgoingReply& reply) = 0;
  /// Reports an event; `slot` is null if the event concerns a batch.
  virtual void report(const JobSlot* slot, const HostEvent& event) = 0;
};

}  // namespace c10dd::core
