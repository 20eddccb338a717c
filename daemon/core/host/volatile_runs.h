// SPDX-License-Identifier: Apache-2.0
// The runs that live only in memory. PlainRuns gives them their names, and says when they end. None
// of their rows reaches an engine, so they outlive a lost engine and end with the process. A run is
// found by its name until it ends; after a grace it is retired. No number is used again in a
// process, also not for a later run of the same name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/directory.h"

namespace c10dd::core {

class VolatileRuns {
 public:
  /// The number of each volatile run is at least this; all other numbers are below.
  static constexpr JobNumber kFirst = JobNumber{1} << 63;
  static constexpr bool owns(JobNumber number) { return number >= kFirst; }

  struct Settings {
    /// Number of the first run. It should be random, because a client can use it to tell this
    /// process from an earlier one; leave room for the numbers that follow.
    JobNumber first = kFirst;
    std::size_t runs = limits::kJobs;  ///< most runs, including those in their grace
    Duration grace = limits::kRunGrace;
  };

  explicit VolatileRuns(const Settings& settings) : settings_(settings), next_(settings.first) {}

  /// Returns the number of the live run of this name; if there is none, makes one. Fails with
  /// quota_exceeded if there are too many runs, and with invalid_argument if a name is invalid.
  Result<JobNumber> open(const std::string& job, const std::string& run);

  /// Returns the number of a live run.
  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Ends a live run and starts its grace. Returns its number; empty if there is no such run.
  std::optional<JobNumber> end(const std::string& job, const std::string& run, TimePoint now);

  /// Removes and returns the runs whose grace is over.
  std::vector<Directory::NamedRun> tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const { return retirements_.next(); }

  /// Returns all live runs of a job.
  std::vector<Directory::NamedRun> live(const std::string& job) const;

 private:
  using Name = std::pair<std::string, std::string>;

  const Settings settings_;
  JobNumber next_;
  std::map<Name, JobNumber> live_;
  std::map<JobNumber, Name> ended_;
  Deadlines<JobNumber> retirements_;  // of ended_
};

}  // namespace c10dd::core
