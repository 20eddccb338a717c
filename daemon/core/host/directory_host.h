// SPDX-License-Identifier: Apache-2.0
// Decides which host serves a job, and when a run is retired. Owns the directory, and asks the
// hosts of the jobs which of them are in use. One per daemon, on the first loop. Pure: the engine
// belongs to the Shell around it.
//
// Lookups: each JobLocation carries a lookup, which counts the locations given out for that job. A
// host that reports a job as idle names the newest lookup that it has seen. If the directory has
// given out a newer one, a hello is still on its way to that host, and the report is ignored.
//
// Threads: every call is made on the thread of the host's loop, except those marked "Thread-safe."
// Callbacks run on that loop unless their call names another one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/directory.h"
#include "daemon/core/host/job_host.h"

namespace c10dd::core {

class DirectoryHost {
 public:
  /// A change of the directory, for one commit.
  struct DirectoryBatch {
    Revision from = 0;              ///< of the directory, before the change
    Revision to = 0;                ///< of the directory, after the change
    std::vector<Row> rows;          ///< of the directory
    std::vector<JobNumber> erased;  ///< jobs whose rows are erased in the same commit
  };

  /// What the host needs from the shell around it. Called on the loop's thread.
  class Shell {
   public:
    virtual ~Shell() = default;

    /// Returns the host that serves the job of this number; always the same one in a process.
    virtual JobHost& host_of(JobNumber number) = 0;
    /// Commits a change, in order with the claims and loads that depend on it; see
    /// directory_rows.h. Calls `then`, which may be empty, on the loop with true if the change is
    /// durable. If it is not, the engine is lost.
    virtual void write(DirectoryBatch batch, std::function<void(bool)> then) = 0;
    /// Reports for the log that a run has left the directory: `how` is "retired" or "removed".
    virtual void struck_out(const Directory::NamedRun& entry, std::string_view how) = 0;
    /// Returns why there is no directory now.
    virtual std::string not_ready() const = 0;
  };

  /// `loop` and `shell` must outlive the host.
  DirectoryHost(HostLoop& loop, Shell& shell) : loop_(loop), shell_(shell), time_(loop.now()) {}

  /// Takes the directory of an engine that was opened; `generation` counts the openings.
  void opened(std::unique_ptr<Directory> directory, std::uint64_t generation);
  /// Drops the directory, because the engine is lost.
  void lost() { directory_.reset(); }
  bool is_open() const { return directory_ != nullptr; }

  /// Returns the number of the job that a hello names. Gives a new job a number and marks it as
  /// idle: its run is retired after the grace unless the hello arrives. Fails with unavailable if
  /// the engine is not open, and as Directory::open() does.
  Result<JobNumber> expect(const std::string& job, const std::string& run);

  /// Finds where the job lives, for a hello that goes there; gives a new job a number. Fails as
  /// expect() does. Calls `then` on the loop `back`.
  /// Thread-safe.
  void locate(const std::string& job, const std::string& run, HostLoop& back,
              std::function<void(Result<JobLocation>)> then);

  /// Takes the report of a host that the last session of a job has ended; `empty` if the job has
  /// no rows worth keeping. Ignored if the directory has given out a newer lookup.
  /// Thread-safe.
  void report_idle(const JobLocation& location, bool empty);

  /// Removes a job with all its runs and their rows. Fails with not_found for an unknown job, with
  /// unavailable if a session is connected or connecting, or if the engine is not open or is lost.
  /// Calls `then` on the loop, possibly before it returns.
  void remove(const std::string& job, std::function<void(Result<void>)> then);

  /// Ends a turn of the loop, after ready sockets were drained: moves job time, and retires the
  /// runs whose grace is over.
  void end_turn();
  /// Returns when the next turn must end at the latest; empty if no run waits for its grace.
  std::optional<SteadyTime> next_wake() const;

  TimePoint job_time() const { return time_.now(loop_.now()); }

 private:
  struct Removal;

  Result<JobNumber> number_of(const std::string& job, const std::string& run);
  Result<JobLocation> locate(const std::string& job, const std::string& run);
  JobLocation location_of(JobNumber number);
  void retire();
  void strike_out(Directory::Retired retired, Revision before, std::string_view how,
                  std::function<void(bool)> then = {});
  void finish(const std::shared_ptr<Removal>& removal);
  Failure closed() const { return unavailable(shell_.not_ready()); }

  HostLoop& loop_;
  Shell& shell_;
  std::unique_ptr<Directory> directory_;
  std::uint64_t generation_ = 0;                          ///< of the engine
  std::unordered_map<JobNumber, std::uint64_t> lookups_;  ///< newest lookup of each job
  JobTime time_;
};

}  // namespace c10dd::core
