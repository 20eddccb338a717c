// SPDX-License-Identifier: Apache-2.0
// The directory of all jobs. Assigns a number to each run of a job, keeps the incarnation of the
// state, and notes which runs are in use. Does no I/O. The directory stores its rows as rows of job
// 0, with the same effects and commit gate as any other job. When the last session of a run ends,
// the grace of the run (Limits::run_grace) begins. After the grace, the run is retired. A client
// can use a job without naming a run. Such a job is retired only if it has no rows worth keeping;
// otherwise it is kept as idle. A job number is never used again. Also keeps the leased endpoints:
// a run that an endpoint names is not retired.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/directory/endpoints.h"
#include "daemon/core/effects.h"
#include "protocol/limits.h"

namespace c10dd::core {

/// Fails with invalid_argument if these are not valid names of a job and a run. The run's may be
/// empty. Only for new ones: state of an earlier version may have other names.
Result<void> check_run_name(const std::string& job, const std::string& run);

class Directory {
 public:
  static constexpr JobNumber kNumber = 0;

  struct Limits {
    std::size_t jobs = limits::kJobs;
    Duration run_grace = limits::kRunGrace;
    std::size_t endpoints = limits::kEndpoints;
  };
  struct NamedRun {
    std::string job;
    std::string run;
    JobNumber number = 0;
  };

  explicit Directory(Revision revision) : Directory(revision, Limits()) {}
  Directory(Revision revision, const Limits& limits)
      : limits_(limits), revision_(revision), endpoints_(limits.endpoints) {}

  Result<void> restore(const Row& row);

  /// Finishes a restore after its last row. `random` becomes the incarnation if the state has none
  /// or if `renew` is set. Set `renew` if rows were lost or if the state was restored from an older
  /// copy. Every run gets its full grace, because the directory does not know yet which runs have
  /// sessions.
  Effects resume(std::uint64_t random, bool renew, TimePoint now);

  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Marks a job as in use, and returns its number. The number of a job never changes. Assigns a
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
    /// Runs whose grace is over, but which were not opened since resume(). Their rows may contain
    /// sessions, so tick() has marked them as in use. The caller must load each run, and must call
    /// mark_idle() if the run has no session.
    std::vector<NamedRun> not_reopened;
  };
  /// Removes the jobs whose grace is over, except those that it returns in Retired::idle or
  /// Retired::not_reopened.
  Retired tick(TimePoint now);

  // ---- on an engine that several daemons share, see directory_host.h

  /// As tick(), but removes no job: `entries` are those that retire() is to remove.
  Retired due(TimePoint now);
  /// Removes these jobs from the directory, and leaves a mark for each, until forget_marks(): what
  /// the engine keeps of a marked job is to be erased. Ignores unknown numbers.
  Retired retire(const std::vector<JobNumber>& numbers);
  /// Removes marks whose jobs are erased.
  void forget_marks(const std::vector<JobNumber>& numbers, Effects& out);
  /// Removes these runs of a job with marks, and all endpoints of the job; see remove().
  Retired retire_all(const std::string& job, const std::vector<JobNumber>& runs,
                     std::vector<Endpoint>& removed);
  const std::set<JobNumber>& marks() const { return marks_; }
  /// Leaves marks for jobs whose names were lost. Their numbers are not given again.
  void mark_nameless(const std::vector<JobNumber>& numbers, Effects& out);
  bool knows(JobNumber number) const { return names_.contains(number); }
  static Row mark_of(JobNumber number);
  /// Returns the row that has the number of a job; an empty one if the job is unknown.
  Row entry_row(JobNumber number) const;

  /// Notes that another daemon owns a job. After the grace, due() returns it in
  /// Retired::not_reopened: the other daemon may have ended meanwhile.
  void mark_elsewhere(JobNumber number, TimePoint now);

  struct Followed {
    std::vector<NamedRun> removed;  ///< jobs that are gone
    bool endpoints = false;         ///< whether the endpoints have changed
  };
  /// Takes the rows that another daemon has changed, in order, and keeps what is not in rows: which
  /// jobs are in use, and when the others are due. `revision` is that of the directory then. Fails
  /// with `malformed` if a row is damaged.
  Result<Followed> follow(const Rows& rows, Revision revision, TimePoint now);
  /// Returns all rows of the directory.
  Rows rows() const;

  /// Removes these jobs from the directory. Ignores unknown numbers.
  Retired remove(const std::vector<JobNumber>& numbers);
  /// Removes these runs of a job, and all endpoints of the job. The endpoints are in `removed`.
  Retired remove(const std::string& job, const std::vector<JobNumber>& runs,
                 std::vector<Endpoint>& removed);
  std::optional<TimePoint> next_deadline() const { return retirements_.next(); }

  const Endpoints& endpoints() const { return endpoints_; }
  /// Leases or renews an endpoint that Endpoints::check() has returned, with its port. If its run
  /// is new, gives the run a number. Fails with quota_exceeded if there are too many jobs.
  Result<void> lease_endpoint(const Endpoint& endpoint, TimePoint now, Effects& out);
  /// Removes and returns an endpoint. Returns nothing if there is none of this name.
  std::optional<Endpoint> release_endpoint(const Endpoints::Name& name, TimePoint now,
                                           Effects& out);
  /// Removes and returns the endpoints whose ttl is over. If `renews`, first renews those that have
  /// connections; see Endpoints::renew_used().
  std::vector<Endpoint> expire_endpoints(TimePoint now, bool renews, Effects& out);
  /// See Endpoints::set_in_use().
  void set_endpoint_in_use(const Endpoints::Name& name, bool in_use, TimePoint now) {
    endpoints_.set_in_use(name, in_use, now);
  }

  std::vector<NamedRun> entries() const;
  /// Returns all runs of a job.
  std::vector<NamedRun> entries(const std::string& job) const;
  std::uint64_t incarnation() const { return incarnation_; }
  /// Returns the row that has the incarnation.
  Row precondition() const;
  Revision revision() const { return revision_; }

 private:
  using Name = std::pair<std::string, std::string>;

  NamedRun entry(JobNumber number) const;
  void strike(JobNumber number, Retired& out);
  Retired marked(Retired out);
  void lease(JobNumber number, TimePoint now);
  void finish(Effects& out);
  void endpoint_gone(const Endpoint& endpoint, TimePoint now);
  Result<void> follow_name(const RowView& row, std::map<JobNumber, Name>& removed,
                           std::set<JobNumber>& added);
  Result<void> follow_row(const RowView& row);

  Limits limits_;
  std::uint64_t incarnation_ = 0;
  JobNumber next_ = 1;
  std::map<Name, JobNumber> numbers_;
  std::map<JobNumber, Name> names_;
  Deadlines<JobNumber> retirements_;  // when to retire each job that is not in use
  std::set<JobNumber> not_reopened_;  // jobs of retirements_ that were not opened since resume()
  std::set<JobNumber> empty_;         // jobs of retirements_ that have no rows worth keeping
  /// Runs that were due in retirements_ while an endpoint named them. They stay in the other sets.
  std::set<JobNumber> named_;
  std::set<JobNumber> marks_;
  Revision revision_;
  Endpoints endpoints_;
};

}  // namespace c10dd::core
