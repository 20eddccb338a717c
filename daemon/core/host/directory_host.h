// SPDX-License-Identifier: Apache-2.0
// Says which host serves which job, and which runs are over: the directory, and the talk with the
// hosts of jobs about who is in use, on one loop. Pure: the engine belongs to the Shell around it.
// Each answer that names a job has a number, its lookup. A host reports a job as idle under the
// newest lookup that it has seen: if a newer hello is on its way, the report does not count.
// All calls are made on the loop's thread, but for those that say so.
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
  /// Rows of the directory, and jobs whose rows go in the same commit.
  struct DirectoryBatch {
    Revision from = 0;
    Revision to = 0;
    std::vector<Row> rows;
    std::vector<JobNumber> erased;
  };

  class Shell {
   public:
    virtual ~Shell() = default;

    /// The host that serves the job of this number, for as long as the process lives.
    virtual JobHost& host_of(JobNumber number) = 0;
    /// Commits a change, in order with the claims and loads that depend on it; see
    /// directory_rows.h. `then`, which may be empty, is called on the loop with whether it is
    /// durable. If it is not, the engine is lost.
    virtual void write(DirectoryBatch batch, std::function<void(bool)> then) = 0;
    /// A job or a run was struck out: "retired" or "removed".
    virtual void struck_out(const Directory::NamedRun& entry, std::string_view how) = 0;
    /// Why there is no directory now.
    virtual std::string not_ready() const = 0;
  };

  DirectoryHost(HostLoop& loop, Shell& shell) : loop_(loop), shell_(shell), time_(loop.now()) {}

  /// An engine was opened, and its directory read.
  void opened(std::unique_ptr<Directory> directory, std::uint64_t generation);
  void lost() { directory_.reset(); }
  bool is_open() const { return directory_ != nullptr; }

  /// The number of the job that a hello is for; a new job gets one, for as long as somebody comes.
  Result<JobNumber> expect(const std::string& job, const std::string& run);

  /// Where the job lives, for a hello on its way there; the job gets a number if it is new. From
  /// any thread; `then` is called on the loop `back`.
  void locate(const std::string& job, const std::string& run, HostLoop& back,
              std::function<void(Result<JobLocation>)> then);

  /// The job's last session has ended, and nobody is on the way with a newer lookup. From any
  /// thread.
  void report_idle(const JobLocation& location, bool empty);

  /// Removes a job with all its runs and their rows, unless somebody is connected (`unavailable`).
  /// not_found if there is none.
  void remove(const std::string& job, std::function<void(Result<void>)> then);

  /// After ready sockets were drained: runs whose grace is over are retired.
  void end_turn();
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
  std::uint64_t generation_ = 0;  ///< of the engine
  std::unordered_map<JobNumber, std::uint64_t> lookups_;
  JobTime time_;
};

}  // namespace c10dd::core
