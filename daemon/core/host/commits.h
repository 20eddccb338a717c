// SPDX-License-Identifier: Apache-2.0
// Carries out the steps of jobs, and commits their rows with at most one batch in flight. The
// commit gate of a job holds each reply until all rows that it depends on are durable.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/core/host/commit_pace.h"
#include "daemon/core/host/host_context.h"
#include "daemon/core/host/job_deadlines.h"
#include "daemon/core/host/job_dropper.h"
#include "daemon/core/host/job_table.h"
#include "daemon/core/host/reply_sender.h"

namespace c10dd::core {

/// What became of a request: its job has answered it, although the commit gate may still hold the
/// reply; it is blocked in the job; or it was ignored and gets no reply.
enum class Submitted : std::uint8_t { answered, blocked, ignored };

class Commits {
 public:
  Commits(const HostContext& context, JobTable& table, JobDeadlines& deadlines,
          ReplySender& replies, JobDropper& dropper)
      : context_(context),
        table_(table),
        deadlines_(deadlines),
        replies_(replies),
        dropper_(dropper) {}

  /// Applies a request to its job, and carries out the effects. As JobHost::submit(), for jobs of
  /// this host.
  Submitted submit(const JobRef& slot, const AttachmentRef& attachment, const CallId& call,
                   const Request& request);
  /// Carries out the effects of a step. `by` is the attachment of the request that has caused the
  /// step, and null if something else has caused it.
  void perform(const JobRef& slot, Effects& effects, const AttachmentRef& by = nullptr,
               std::uint64_t sequence = 0);
  void perform(const JobRef& slot, Effects&& effects) { perform(slot, effects); }

  /// Hands one batch to the engine: all gathered rows, and a request to confirm the ownership of
  /// each job that needs it. Does nothing in four cases: a batch is in flight, the engine is not
  /// open, the engine is volatile, or CommitPace waits for more requests.
  void start_batch();
  /// As JobHost::committed().
  void committed(std::uint64_t generation, const store::CommitResult& result);
  /// Looks at each job that was touched in this turn: takes over its deadline and its size, and
  /// sends the replies that need not wait any more.
  void end_turn();
  /// Returns when start_batch() must be called again; empty if no batch waits.
  std::optional<SteadyTime> next_batch() const { return pace_.until(); }

  /// Forgets the batch in flight, because its engine is lost.
  void engine_lost();
  void forget();

 private:
  void hold(const JobRef& slot, OutgoingReply&& reply);
  void end_turn_of(const JobRef& slot);
  std::size_t waiting() const;
  void finish_batch(const store::CommitResult& result);

  const HostContext& context_;
  JobTable& table_;
  JobDeadlines& deadlines_;
  ReplySender& replies_;
  JobDropper& dropper_;

  // These objects are empty between calls. They keep memory for the next call.
  Effects effects_;
  std::vector<JobRef> spare_touched_;

  /// The rows of a job that are part of the batch in flight.
  struct InFlight {
    JobRef slot;
    Revision to = 0;
    std::size_t rows = 0;
  };
  std::uint64_t batch_ = 0;  ///< number of the newest batch
  bool batch_in_flight_ = false;
  std::size_t to_answer_ = 0;  ///< requests that wait for the batch in flight
  CommitPace pace_;
  std::vector<InFlight> committing_;  ///< in the order of CommitBatch::jobs
  std::vector<JobRef> confirming_;    ///< in the order of CommitBatch::confirms
};

}  // namespace c10dd::core
