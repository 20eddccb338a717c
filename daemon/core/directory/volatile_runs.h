// SPDX-License-Identifier: Apache-2.0
// The runs that live only in memory. PlainRuns gives them their names, and says when they end. None
// of their rows reaches an engine, so they outlive a lost engine and end with the process. A run is
// found by its name until it ends. After a grace it is retired; earlier, the oldest first, if its
// place is needed, or if the runs that have ended are too many or too large. No number is used
// again in a process, also not for a later run of the same name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/directory/directory.h"
#include "daemon/core/host/volatile_number.h"

namespace c10dd::core {

class VolatileRuns {
 public:
  static constexpr JobNumber kFirst = kFirstVolatile;

  struct Settings {
    /// Number of the first run. It should be random, because a client can use it to tell this
    /// process from an earlier one; leave room for the numbers that follow.
    JobNumber first = kFirst;
    std::size_t runs = limits::kJobs;  ///< most runs, including those in their grace
    Duration grace = limits::kRunGrace;
    std::size_t ended = limits::kEndedRuns;           ///< most runs in their grace
    std::uint64_t ended_bytes = limits::kEndedBytes;  ///< of all runs in their grace but the newest
  };

  explicit VolatileRuns(const Settings& settings) : settings_(settings), next_(settings.first) {}

  /// Returns the number of the live run of this name; if there is none, makes one. The run counts
  /// for `address`, from which its first connection comes and which may have half of all places.
  /// Fails with quota_exceeded if there are too many live runs, in all or of this address, and with
  /// invalid_argument if a name is invalid.
  Result<JobNumber> open(const std::string& job, const std::string& run,
                         const std::string& address);

  /// Returns the job number of the live run with this name.
  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Ends a live run and starts its grace. Returns its number; empty if there is no such run.
  std::optional<JobNumber> end(const std::string& job, const std::string& run, TimePoint now);

  /// Makes the newest run of this name that has ended and is not retired live again. It counts for
  /// `address`, whatever that has, because it had its place. Returns its number; empty if there is
  /// no such run.
  std::optional<JobNumber> resume(const std::string& job, const std::string& run,
                                  const std::string& address);

  /// Returns true if resume() would find a run.
  bool is_kept(const std::string& job, const std::string& run) const {
    return newest_ended_.contains({job, run});
  }

  /// Notes how much memory a run has that has ended.
  void weigh(JobNumber number, std::uint64_t bytes);

  /// Retires the run that has ended first, if any has: the daemon is short of memory.
  void make_room();

  /// Removes and returns the runs that are retired: their grace is over, or they had to make room.
  std::vector<Directory::NamedRun> tick(TimePoint now);
  /// Returns when tick() must be called; a time in the past: at once.
  std::optional<TimePoint> next_deadline() const;

  /// Returns all live runs of a job.
  std::vector<Directory::NamedRun> live(const std::string& job) const;

 private:
  using Name = std::pair<std::string, std::string>;

  struct Live {
    JobNumber number = 0;
    std::string address;
  };
  struct Ended {
    Name name;
    std::uint64_t bytes = 0;
  };

  std::optional<Failure> refusal(const std::string& address) const;
  void enter(Name name, JobNumber number, const std::string& address);
  Ended take_ended(JobNumber number);
  void bound_ended();

  const Settings settings_;
  JobNumber next_;
  std::map<Name, Live> live_;
  std::map<std::string, std::size_t> by_address_;  // how many of live_
  std::map<JobNumber, Ended> ended_;
  std::map<Name, JobNumber> newest_ended_;  // of ended_
  std::uint64_t ended_bytes_ = 0;           // sum over ended_
  Deadlines<JobNumber> retirements_;        // of ended_
  std::vector<Directory::NamedRun> over_;   // for tick()
};

}  // namespace c10dd::core
