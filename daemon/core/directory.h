// SPDX-License-Identifier: Apache-2.0
// The directory of all jobs: keeps the number of each name, the runs that are in use, and the
// incarnation of the state. Pure. Its rows are those of job 0 and use the same effects and commit
// gate as the rows of any job. A run is retired Limits::run_grace after its last session has ended.
// A job without a run is retired only if it is empty then; else it is kept as idle. A number is
// never used again.
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

  /// Finishes a restore after its last row. `random` becomes the incarnation if the state has none
  /// yet, or if `renew` is set because state was lost or restored. Every run gets its grace in
  /// full: the directory can not know yet whether the run has sessions.
  Effects resume(std::uint64_t random, bool renew, TimePoint now);

  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Returns the number of a job, which never changes, and marks the job as in use. Gives a new job
  /// its number: the rows in `out` must be durable before the number is used. Fails with
  /// quota_exceeded if there are too many jobs, and with invalid_argument if a name is invalid.
  Result<JobNumber> open(const std::string& job, const std::string& run, Effects& out);

  /// Marks a job as in use: it has sessions, or expects one. It is not retired.
  void mark_in_use(JobNumber number);
  /// Starts the grace of a job whose last session has ended. `empty`: it has no rows worth keeping.
  void mark_idle(JobNumber number, bool empty, TimePoint now);

  struct Retired {
    std::vector<NamedRun> entries;  ///< their rows must be erased before these effects
    Effects effects;
    std::vector<NamedRun> idle;  ///< kept jobs that were unused for the grace
    /// Runs that were not opened since resume(), whose rows may have sessions. Marked as in use
    /// from now on: the caller must look, and call mark_idle() if there is no session.
    std::vector<NamedRun> not_reopened;
  };
  /// Removes the jobs whose grace is over from the directory.
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
  Deadlines<JobNumber> retirements_;  // of the jobs that are not in use
  std::set<JobNumber> not_reopened_;  // of retirements_: not opened since resume()
  std::set<JobNumber> empty_;         // of retirements_: without rows worth keeping
  Revision revision_;
};

}  // namespace c10dd::core
