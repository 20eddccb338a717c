// SPDX-License-Identifier: Apache-2.0
// Gives each launch of stock PyTorch trainers a run of its own: carries out what core::PlainRuns
// decides. Before each decision it looks for connections that their clients have ended, so that the
// end of one launch counts before the start of the next, whichever loops serve them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/net/ended_connections.h"
#include "daemon/net/tcpstore_runs.h"

namespace c10dd::daemon {

/// The runs of one job, for all its listeners. Owned by shared pointers.
class LaunchRuns final : public TcpStoreRuns, public std::enable_shared_from_this<LaunchRuns> {
 public:
  /// What a run is made of. Called on the loop that accepts connections.
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

  /// `loop` is the loop that accepts connections.
  /// `claim` is that of the job: the daemon that owns it has all runs. Null if the daemon is in no
  /// fleet.
  LaunchRuns(boost::asio::io_context& loop, std::string job, Directory directory,
             std::shared_ptr<core::RunClaim> claim = nullptr)
      : loop_(loop),
        job_(std::move(job)),
        directory_(std::move(directory)),
        claim_(std::move(claim)),
        rest_timer_(loop) {}

  void locate(std::function<void(Result<Owner>)> then) override;
  void bind(const Client& client, const tcpstore::MessageHead& first,
            std::function<void(Result<std::string>)> then) override;
  void opened(std::uint64_t connection, std::function<void(Failure)> close) override;
  bool concerns(const tcpstore::MessageHead& message) const override;
  void ask(std::uint64_t connection, const tcpstore::MessageHead& message, bool others_wait,
           std::function<void(Result<void>)> then) override;
  void ended(std::uint64_t connection) override;

  // The following are called on the loop that accepts connections.

  const std::string& job() const { return job_; }
  std::vector<core::PlainRuns::Report> reports() const { return runs_.reports(); }
  /// Closes all connections of a run. Fails with not_found if no such run has a connection.
  Result<void> end(const std::string& run);

 private:
  /// A connection that was bound and has not ended.
  struct Connection {
    std::function<void(Failure)> close;  ///< null before its session is open
    std::optional<Failure> closing;      ///< to be closed as soon as its session is open
  };

  Result<std::string> bind_here(const Client& client, const core::PlainRuns::First& first);
  void after_ends(std::function<void()> then);
  void keep_claim();
  void release_claim();
  void check_resting();
  void end_all(const Failure& why);
  void handle_ends();
  void forget(std::uint64_t connection);
  void carry_out(const core::PlainRuns::Outcome& outcome);

  boost::asio::io_context& loop_;
  const std::string job_;
  const Directory directory_;
  const std::shared_ptr<core::RunClaim> claim_;
  boost::asio::steady_timer rest_timer_;  ///< while only a resting run needs the claim
  core::PlainRuns runs_;
  EndedConnections ended_;
  std::map<std::uint64_t, Connection> connections_;
};

/// The LaunchRuns of all jobs. Called on the loop that accepts connections.
class Launches {
 public:
  using Make = std::function<std::shared_ptr<LaunchRuns>(const std::string& job)>;
  explicit Launches(Make make) : make_(std::move(make)) {}

  /// Returns the runs of a job, which live as long as one of its listeners or connections.
  std::shared_ptr<LaunchRuns> of(const std::string& job);
  /// Returns the runs of a job; null if it has neither a listener nor a connection.
  std::shared_ptr<LaunchRuns> find(const std::string& job) const;

 private:
  const Make make_;
  std::map<std::string, std::weak_ptr<LaunchRuns>> by_job_;
};

}  // namespace c10dd::daemon
