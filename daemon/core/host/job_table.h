// SPDX-License-Identifier: Apache-2.0
// The jobs of a host, by number and by name. Knows which of them are in use, tells the directory
// when one is not any more, and reports on them. Also remembers the jobs that the end of the turn
// has to look at.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/core/host/host_context.h"

namespace c10dd::core {

class JobTable {
 public:
  explicit JobTable(const HostContext& context) : context_(context) {}

  // ---- all jobs, including those that are loading, as pairs of a number and a JobRef

  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }
  bool empty() const { return slots_.empty(); }
  std::size_t size() const { return slots_.size(); }
  /// Returns null if there is no such job.
  JobRef find(JobNumber number) const;
  JobRef find(const std::string& job, const std::string& run) const;

  // ---- reports

  /// Returns a report on each job that is served.
  std::vector<JobReport> reports() const;
  /// Returns a report on each job that is being loaded.
  std::vector<LoadReport> loads() const;
  LoadReport load_of(const JobSlot& slot) const;
  /// Returns the numbers of the runs of this job that are served.
  std::vector<JobNumber> numbers_of(std::string_view job) const;
  /// Returns the runs of this job in which clients of a protocol without sessions are connected,
  /// with the number of their connections. Such clients do not connect again.
  std::vector<std::pair<std::string, std::size_t>> fleeting_in(std::string_view job) const;
  /// Returns a report on each run of the job with this name that is served.
  std::vector<RunReport> runs_of(std::string_view job) const;
  /// Returns the number of held replies plus the number of rows not yet handed to the engine.
  std::size_t unfinished() const;

  // ---- for the directory

  /// Ends the metric series of a job that has not been used for a while. The series begin again
  /// with the next hello.
  void end_series(JobNumber number);
  /// Closes a job that has no users. Each later hello must then ask the directory first. Returns
  /// the number of users: connected sessions or, while the job is loading, hellos that wait or were
  /// told to come back. If this number is not 0, the call has changed nothing.
  std::size_t close(JobNumber number);
  /// Undoes close(). Called if the directory decides not to remove the job.
  void keep(JobNumber number);
  /// Notes that a volatile run has ended: each later hello must ask the directory, which no longer
  /// finds the run. Returns how many bytes the run has in memory.
  std::uint64_t end_volatile(JobNumber number);

  // ---- for the host and its parts

  /// Adds a job, which is loading.
  JobRef add(const JobLocation& location, const std::string& job, const std::string& run);
  /// Removes a job that the host drops. `slot` must be the caller's own reference, because the one
  /// of the table goes.
  void remove(const JobRef& slot);
  /// Marks a job as in use, for a hello or a probe that came with this lookup number.
  void use(JobSlot& slot, std::uint64_t lookup);
  /// If the job has no session left, reports the job as idle to the directory, so that the
  /// directory can retire the job. From then on, hellos must ask the directory first.
  void report_idle(JobSlot& slot, const JobStats& stats);
  /// Tells the growth gate how large the job is now.
  void count_bytes(JobSlot& slot, const JobStats& stats);

  /// Makes the end of the turn look at a job that may have changed.
  void touch(const JobRef& slot) {
    slot->changed = true;
    touch_quietly(slot);
  }
  /// Makes the end of the turn release the replies of a job.
  void touch_quietly(const JobRef& slot) {
    if (!std::exchange(slot->touched, true)) touched_.push_back(slot);
  }
  const std::vector<JobRef>& touched() const { return touched_; }
  /// Moves the touched jobs to `into`, which must be empty. The table keeps the memory of `into`
  /// for the next ones.
  void take_touched(std::vector<JobRef>& into) { touched_.swap(into); }

  /// Drops all references to jobs, and those of the jobs to connections.
  void forget();

 private:
  const HostContext& context_;
  std::unordered_map<JobNumber, JobRef> slots_;
  std::map<std::pair<std::string, std::string>, JobRef> by_name_;
  std::vector<JobRef> touched_;
};

}  // namespace c10dd::core
