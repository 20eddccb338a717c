// SPDX-License-Identifier: Apache-2.0
// Loads jobs in pieces, one piece per turn, so that the loop also serves other jobs during a load.
// Jobs that are loaded at the same time take turns. Calls back all who wait for a job when it is
// served, or cannot be; a client that can ask again is told after a while how far the load is.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/host/host_context.h"
#include "daemon/core/host/job_dropper.h"
#include "daemon/core/host/job_table.h"

namespace c10dd::core {

class JobLoader {
 public:
  JobLoader(const HostContext& context, JobTable& table, JobDropper& dropper)
      : context_(context), table_(table), dropper_(dropper) {}

  /// As JobHost::serve(). If `asks_again`, calls `then` after limits::kLoadAnswer at the latest: if
  /// the load then goes on, with a failure that says so, with Failure::loading and retry_after.
  void serve(const JobLocation& location, const std::string& job, const std::string& run,
             std::function<void(Result<JobRef>)> then, bool asks_again = false);
  /// As JobHost::probe().
  void probe(const JobLocation& location, const std::string& job, const std::string& run);
  /// As JobHost::loaded().
  void loaded(std::uint64_t generation, const JobRef& slot, store::JobPiece piece);
  /// Restores one piece of one job: of the one whose turn it is. A piece without rows, as of a new
  /// job, takes no turn.
  void restore_piece();
  bool has_pieces() const { return !loading_.empty(); }
  /// Tells those who have waited for limits::kLoadAnswer how far the load is.
  void tell_waiters();
  /// Returns when tell_waiters() must be called; empty if nobody waits.
  std::optional<SteadyTime> next_answer() const { return next_answer_; }

  /// Drops all jobs except volatile runs. Their clients come back.
  void give_up_all(const std::string& why);
  /// Notes that an engine with this state was opened.
  void engine_opened(std::uint64_t incarnation);
  /// Remembers how far a dropped job was durable, and tells the directory that another daemon may
  /// serve it now.
  void note_dropped(const JobSlot& slot);
  /// Forgets what note_dropped() has remembered of a job that is gone.
  void note_gone(JobNumber number) { durable_.erase(number); }
  void forget() {
    loading_.clear();
    awaited_.clear();
  }

 private:
  JobRef slot_of(const JobLocation& location, const std::string& job, const std::string& run);
  Failure refusal_of(const JobSlot& slot);
  void load(const JobRef& slot, std::optional<store::Holder> over = {});
  void refused_claim(const JobRef& slot, const store::ClaimReply& reply);
  void claim_decided(const JobRef& slot, const store::Holder& holder,
                     const ClaimDecision& decision);
  void give_up(const JobRef& slot, Failure refusal);
  void begin_volatile(const JobRef& slot);
  void restore_piece_of(const JobRef& slot);
  void wait_for(const JobRef& slot, JobSlot::LoadWaiter waiter);
  static void end_waits(JobSlot& slot);
  void tell_waiters_of(JobSlot& slot, SteadyTime now);
  Failure still_loading(const JobSlot& slot) const;
  Result<void> check_claim(const JobSlot& slot, const store::Claim& claim) const;
  void finish(const JobRef& slot, const Result<void>& result);

  const HostContext& context_;
  JobTable& table_;
  JobDropper& dropper_;
  std::deque<JobRef> loading_;             ///< jobs with pieces that are not restored yet, in turn
  std::vector<JobRef> awaited_;            ///< jobs with a waiter that must be told at some time
  std::optional<SteadyTime> next_answer_;  ///< the earliest such time
  std::uint64_t incarnation_ = 0;          ///< of the engine that was opened last
  /// In a fleet: of jobs that this daemon has served, the newest revision that was durable.
  std::unordered_map<JobNumber, Revision> durable_;
};

}  // namespace c10dd::core
