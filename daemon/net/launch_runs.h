// SPDX-License-Identifier: Apache-2.0
// Gives each launch of stock PyTorch trainers a run of its own: tells core::JobLaunches of the
// connections. Before each decision it looks for connections that their clients have ended, so that
// the end of one launch counts before the start of the next, whichever loops serve them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/fleet/job_launches.h"
#include "daemon/net/ended_connections.h"
#include "daemon/net/tcpstore_runs.h"

namespace c10dd::daemon {

/// The runs of one job, for all its listeners. Owned by shared pointers.
class LaunchRuns final : public TcpStoreRuns, public std::enable_shared_from_this<LaunchRuns> {
 public:
  using Directory = core::JobLaunches::Directory;

  /// `loop` is the loop that accepts connections.
  /// `claim` is that of the job: the daemon that owns it has all runs. Null if the daemon is in no
  /// fleet.
  LaunchRuns(boost::asio::io_context& loop, const std::string& job, Directory directory,
             std::shared_ptr<core::RunClaim> claim = nullptr);

  void locate(std::function<void(Result<Owner>)> then) override;
  void bind(const Client& client, const tcpstore::MessageHead& first,
            std::function<void(Result<std::string>)> then) override;
  void opened(std::uint64_t connection, std::function<void(Failure)> close) override;
  bool concerns(const tcpstore::MessageHead& message) const override;
  void ask(std::uint64_t connection, const tcpstore::MessageHead& message, bool others_wait,
           std::function<void(Result<void>)> then) override;
  void ended(std::uint64_t connection) override;

  // The following are called on the loop that accepts connections.

  const std::string& job() const { return launches_->job(); }
  std::vector<core::PlainRuns::Report> reports() const { return launches_->reports(); }
  core::AuditResult audit() const { return launches_->audit(); }
  /// Closes all connections of a run. Fails with not_found if no such run has a connection.
  Result<void> end(const std::string& run);

 private:
  Result<std::string> bind_here(const Client& client, const core::PlainRuns::First& first);
  void after_ends(std::function<void()> then);
  void handle_ends();

  boost::asio::io_context& loop_;
  const std::shared_ptr<core::JobLaunches> launches_;
  EndedConnections ended_;
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
