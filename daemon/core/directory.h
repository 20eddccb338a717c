// SPDX-License-Identifier: Apache-2.0
// Above the jobs: which name has which number, which runs are in use, and the incarnation of the
// state. Pure; its rows are those of job 0, under the same apply, effects and gate as any job.
// A run is leased: it is retired some time after its last session has ended. A job without a run is
// retired only if it is empty then, and else idle. Numbers are never used again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

  /// After the last row. Names the state on first use: `random` is the new incarnation if there is
  /// none yet, or if `renew`: state was lost or restored. Whether a run has sessions is not known.
  Effects resume(std::uint64_t random, bool renew, TimePoint now);

  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Gives a job its number for ever and marks it as occupied. The rows must be durable before the
  /// number is used. quota_exceeded when there are too many; invalid_argument for a bad name.
  Result<JobNumber> open(const std::string& job, const std::string& run, Effects& out);

  /// The job has sessions, or one is coming.
  void occupy(JobNumber number);
  /// The job's last session has ended; it has no rows worth keeping if it is `empty`.
  void mark_idle(JobNumber number, bool empty, TimePoint now);

  struct Retired {
    std::vector<NamedRun> entries;  ///< their rows must be erased before these effects
    Effects effects;
    std::vector<NamedRun> idle;  ///< kept, and nobody has used them for the grace
    /// Occupied from now on: nobody has come since resume(), but their rows may have sessions.
    std::vector<NamedRun> unvisited;
  };
  /// Strikes out the jobs whose grace is over.
  Retired tick(TimePoint now);
  /// Strikes out these.
  Retired remove(const std::vector<JobNumber>& numbers);
  std::optional<TimePoint> next_deadline() const;

  std::vector<NamedRun> entries() const;
  /// All runs of a job.
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
  std::map<JobNumber, TimePoint> retire_at_;  // when they are retired
  std::set<JobNumber> unvisited_;             // of these, as are the next
  std::set<JobNumber> empty_;
  std::set<std::pair<TimePoint, JobNumber>> by_deadline_;
  Revision revision_;
};

}  // namespace c10dd::core
