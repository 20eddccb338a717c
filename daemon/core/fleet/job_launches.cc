// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/job_launches.h"

#include <utility>

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {

JobLaunches::Directory JobLaunches::volatile_runs(DirectoryHost& directory, const std::string& job,
                                                  std::function<TimePoint()> now) {
  Directory runs;
  runs.open = [&directory, job](const std::string& run,
                                const std::string& address) -> Result<void> {
    const Result<JobNumber> number = directory.open_volatile(job, run, address);
    if (!number) return number.error();
    return {};
  };
  runs.end = [&directory, job](const std::string& run) { directory.end_volatile(job, run); };
  runs.resume = [&directory, job](const std::string& run, const std::string& address) {
    directory.resume_volatile(job, run, address);
  };
  runs.keeps = [&directory, job](const std::string& run) {
    return directory.keeps_volatile(job, run);
  };
  runs.now = std::move(now);
  return runs;
}

void JobLaunches::locate(std::function<void(Result<RunClaim::Owner>)> then) {
  claim_ ? claim_->ask(std::move(then)) : then(RunClaim::Owner{});
}

void JobLaunches::confirm(std::function<void(Result<void>)> then) {
  locate([self = shared_from_this(),
          then = std::move(then)](const Result<RunClaim::Owner>& owner) -> void {
    if (!owner) return then(owner.error());
    if (owner->here()) return then({});
    then(failure(Code::not_owner, "job \"{}\" was taken over by the daemon at {}",
                 printable(self->job_, limits::kNameBytes), owner->addresses.front()));
  });
}

Result<std::string> JobLaunches::bind(Connection connection, const PlainRuns::Peer& peer,
                                      const PlainRuns::First& first) {
  check_resting();
  const PlainRuns::Outcome outcome = runs_.bind(connection, peer, first, shell_.directory.now());
  connections_.try_emplace(connection);
  carry_out(outcome);
  if (outcome.resumed) shell_.directory.resume(outcome.run, peer.address);
  if (const Result<void> made = shell_.directory.open(outcome.run, peer.address); !made) {
    ended(connection);
    return made.error();
  }
  if (claim_) keep_claim();
  return outcome.run;
}

/// Keeps the claim on the job while runs have connections, or one can be resumed. Another daemon
/// that owns the job begins runs of its own: then the runs here end.
void JobLaunches::keep_claim() {
  claim_->keep([weak = weak_from_this()](const Failure& why) {
    if (const auto self = weak.lock()) self->end_all(why);
  });
}

void JobLaunches::release_claim() {
  check_resting();
  if (!claim_ || !connections_.empty() || planted(Planted::claim_kept)) return;
  if (runs_.resting().empty()) return claim_->release();
  if (std::exchange(resting_checked_, true)) return;
  shell_.later(kRestChecked, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->resting_checked_ = false;
    self->release_claim();
  });
}

void JobLaunches::check_resting() {
  const std::string resting = runs_.resting();
  if (!resting.empty() && !shell_.directory.keeps(resting)) runs_.retired(resting);
}

void JobLaunches::end_all(const Failure& why) {
  for (const PlainRuns::Report& run : reports()) {
    if (const auto outcome = runs_.end(run.run, "the run has ended: " + why.detail)) {
      carry_out(*outcome);
    }
  }
  runs_.retired(runs_.resting());
}

void JobLaunches::opened(Connection connection, std::function<void(Failure)> close) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  if (found->second.closing) return close(*found->second.closing);
  found->second.close = std::move(close);
}

Result<void> JobLaunches::set_keys(Connection connection,
                                   const std::vector<PlainRuns::KeySet>& keys, bool others_wait) {
  const PlainRuns::Outcome outcome =
      runs_.set_keys(connection, keys, others_wait, shell_.directory.now());
  carry_out(outcome);
  if (outcome.refused) return failure(Code::rank_taken, "{}", outcome.reason);
  return {};
}

void JobLaunches::ended(Connection connection) {
  connections_.erase(connection);
  if (!planted(Planted::ended_stays_bound)) hung_up(connection);
  release_claim();
}

Result<void> JobLaunches::end(const std::string& run) {
  const auto outcome = runs_.end(
      run, "run \"" + printable(run, limits::kNameBytes) + "\" was ended by a request to /v1/jobs");
  if (!outcome) {
    return failure(Code::not_found, "run \"{}\" of job \"{}\" has no connection",
                   printable(run, limits::kNameBytes), printable(job_, limits::kNameBytes));
  }
  carry_out(*outcome);
  return {};
}

void JobLaunches::carry_out(const PlainRuns::Outcome& outcome) {
  for (const PlainRuns::Note& note : outcome.notes) shell_.log(note);
  for (const Connection connection : outcome.close) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) continue;
    Failure reason = failure(Code::aborted, "{}", outcome.reason);
    if (found->second.close) {
      found->second.close(std::move(reason));
    } else {
      found->second.closing = std::move(reason);
    }
  }
  for (const std::string& run : outcome.ended) shell_.directory.end(run);
}

AuditResult JobLaunches::audit() const {
  std::size_t bound = 0;
  for (const auto& [connection, session] : connections_) {
    if (!runs_.run_of(connection).empty()) ++bound;
  }
  std::size_t counted = 0;
  for (const PlainRuns::Report& run : reports()) counted += run.connections;
  if (bound != counted) {
    return format("{} connections of runs, but {} open connections are bound to one", counted,
                  bound);
  }
  if (claim_ && counted > 0 && !claim_->keeps()) {
    return "runs have connections, but no claim is kept";
  }
  if (claim_ && connections_.empty() && runs_.resting().empty() && claim_->keeps()) {
    return "a claim is kept, but no connection needs it";
  }
  return {};
}

}  // namespace c10dd::core
