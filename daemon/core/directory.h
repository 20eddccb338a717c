// SPDX-License-Identifier: Apache-2.0
// The directory of all jobs. Keeps the number of each job and the incarnation of the state, and
// notes which runs are in use. Does no I/O. The rows of the directory are stored as rows of job 0,
// with the same effects and commit gate as the rows of other jobs. A run is retired
// Limits::run_grace after its last session has ended. A job without a run is retired only if it is
// empty; otherwise it is kept as idle. A job number is never used again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/effects.h"
#include "protocol/limits.h"

namespace c10dd::core {

class Directory {
 public:
  static constexpr JobNumber kNumber = 0;

  struct Limits {
    std::size_t jobs = limits::kJobs;
    Duration run_grace = limits::kRunGrace;
  };
  struct NamedRun {
    std::string job;
    std::string run;
    JobNumber number = 0;
  };

  explicit Directory(Revision revision) : Directory(revision, Limits()) {}
  Directory(Revision revision, const Limits& limits) : limits_(limits), revision_(revision) {}

  Result<void> restore(const Row& row);

  /// Finishes a restore after its last row. If the state has no incarnation, or if `renew` is set
  /// because the state was lost or restored, `random` becomes the incarnation. Starts the full
  /// grace of every run, because the directory does not know yet which runs have sessions.
  Effects resume(std::uint64_t random, bool renew, TimePoint now);

  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Returns the number of a job, which never changes, and marks the job as in use. Assigns a
  /// number to a new job; the rows in `out` must be durable before this number is used. Fails with
  /// quota_exceeded if there are too many jobs, and with invalid_argument if a name is invalid.
  Result<JobNumber> open(const std::string& job, const std::string& run, Effects& out);

  /// Marks a job as in use, because it has or expects a session. Such a job is not retired.
  void mark_in_use(JobNumber number);
  /// Starts the grace of a job whose last session has ended. Set `empty` if the job has no rows
  /// worth keeping.
  void mark_idle(JobNumber number, bool empty, TimePoint now);

  struct Retired {
    std::vector<NamedRun> entries;  ///< removed jobs; erase their rows before you apply `effects`
    Effects effects;
    std::vector<NamedRun> idle;  ///< jobs that are kept although their grace is over
    /// Runs that were not opened since resume(), but whose rows may contain sessions. They are now
    /// marked as in use. The caller must check each run, and call mark_idle() if it has no session.
    std::vector<NamedRun> not_reopened;
  };
  /// Removes the jobs whose grace is over, except those in Retired::idle and not_reopened.
  Retired tick(TimePoint now);
  /// Removes these jobs from the directory.
  Retired remove(const std::vector<JobNumber>& numbers);
  std::optional<TimePoint> next_deadline() const { return retirements_.next(); }

  std::vector<NamedRun> entries() const;
  /// Returns all runs of a job.
  std::vector<NamedRun> entries(const std::string& job) const;
  std::uint64_t incarnation() const { return incarnation_; }
  Revision revision() const { return revision_; }

 private:
  using Name = std::pair<std::string, std::string>;

  NamedRun entry(JobNumber number) const;
  void strike(JobNumber number, Retired& out);
  void lease(JobNumber number, TimePoint now);

  Limits limits_;
  std::uint64_t incarnation_ = 0;
  JobNumber next_ = 1;
  std::map<Name, JobNumber> numbers_;
  std::map<JobNumber, Name> names_;
  Deadlines<JobNumber> retirements_;  // when to retire each job that is not in use
  std::set<JobNumber> not_reopened_;  // jobs of retirements_ that were not opened since resume()
  std::set<JobNumber> empty_;         // jobs of retirements_ that have no rows worth keeping
  Revision revision_;
};

}  // namespace c10dd::core
