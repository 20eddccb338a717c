// SPDX-License-Identifier: Apache-2.0
// The launches of stock PyTorch trainers in one job: gives their connections runs, as PlainRuns
// decides, makes and ends these runs in the directory, and keeps the claim on the job while it is
// needed. Pure: the caller tells of connections and of their ends, and has the timer. All calls are
// made on the loop of the directory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/directory/directory_host.h"
#include "daemon/core/fleet/run_claim.h"
#include "daemon/core/torch/plain_runs.h"

namespace c10dd::core {

/// Owned by shared pointers.
class JobLaunches final : public std::enable_shared_from_this<JobLaunches> {
 public:
  using Connection = PlainRuns::Connection;

  /// What a run is made of.
  struct Directory {
    /// Makes a run, unless it is live. `address` is that of its first client.
    std::function<Result<void>(const std::string& run, const std::string& address)> open;
    std::function<void(const std::string& run)> end;
    /// Makes a run live again that has ended and is kept.
    std::function<void(const std::string& run, const std::string& address)> resume;
    /// Returns whether the keys of a run that has ended are still there.
    std::function<bool(const std::string& run)> keeps;
    std::function<TimePoint()> now;
  };
  /// Returns the volatile runs of a job of this directory, which must outlive them.
  static Directory volatile_runs(DirectoryHost& directory, const std::string& job,
                                 std::function<TimePoint()> now);

  struct Shell {
    Directory directory;
    /// Calls the function on the loop after this time.
    std::function<void(Duration, std::function<void()>)> later;
    std::function<void(const PlainRuns::Note&)> log;
  };

  /// `claim` is that of the job: the daemon that owns it has all runs. Null if the daemon is in no
  /// fleet.
  JobLaunches(std::string job, Shell shell, std::shared_ptr<RunClaim> claim)
      : job_(std::move(job)), shell_(std::move(shell)), claim_(std::move(claim)) {}

  /// Finds the daemon that has the runs, as RunClaim::ask() does.
  void locate(std::function<void(Result<RunClaim::Owner>)> then);
  /// Calls `then` when it is certain whether this daemon has the runs. Fails with not_owner if
  /// another one has them, and as RunClaim::ask() does.
  void confirm(std::function<void(Result<void>)> then);

  /// Binds a connection, after confirm(). Returns its run, or why it must be closed.
  Result<std::string> bind(Connection connection, const PlainRuns::Peer& peer,
                           const PlainRuns::First& first);
  /// Notes how a bound connection is closed. Calls `close` at once if it must be closed already. No
  /// effect if it has ended.
  void opened(Connection connection, std::function<void(Failure)> close);
  /// Notes that a bound connection has sent a join after its first request.
  void joined(Connection connection) { runs_.joined(connection); }
  /// Asks whether a bound connection may set these keys, see PlainRuns::set_keys().
  Result<void> set_keys(Connection connection, const std::vector<PlainRuns::KeySet>& keys,
                        bool others_wait);
  /// Notes that the client of a connection has ended it. Its session may still be open.
  void hung_up(Connection connection) { carry_out(runs_.closed(connection)); }
  /// Notes that a connection and its session have ended.
  void ended(Connection connection);

  /// Closes all connections of a run. Fails with not_found if no such run has a connection.
  Result<void> end(const std::string& run);

  const std::string& job() const { return job_; }
  std::vector<PlainRuns::Report> reports() const { return runs_.reports(); }
  /// Recounts. Returns what does not agree.
  AuditResult audit() const;

  /// How often it looks whether a run that only may be resumed is still kept.
  static constexpr Duration kRestChecked = std::chrono::seconds(1);

 private:
  /// A connection that was bound, and whose session has not ended.
  struct Session {
    std::function<void(Failure)> close;  ///< null before it is open
    std::optional<Failure> closing;      ///< to be closed as soon as it is open
  };

  void keep_claim();
  void release_claim();
  void check_resting();
  void end_all(const Failure& why);
  void carry_out(const PlainRuns::Outcome& outcome);

  const std::string job_;
  const Shell shell_;
  const std::shared_ptr<RunClaim> claim_;
  bool resting_checked_ = false;  ///< a look at the resting run was asked for and has not come
  PlainRuns runs_;
  std::map<Connection, Session> connections_;
};

}  // namespace c10dd::core
