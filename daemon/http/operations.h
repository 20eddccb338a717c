// SPDX-License-Identifier: Apache-2.0
// The interface through which HTTP routes query and control the daemon.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/http/routes.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// The functions are called on the loop that accepts connections; coroutines resume on that loop.
class Operations {
 public:
  virtual ~Operations() = default;

  /// Returns the facts that are known without waiting and do not depend on the client. The other
  /// members of ServerFacts keep their defaults.
  virtual ServerFacts facts() const = 0;

  /// Returns the text of /metrics with current values.
  virtual boost::asio::awaitable<std::string> metrics_text() = 0;

  /// Returns the reports of all loaded jobs.
  virtual boost::asio::awaitable<std::vector<core::JobReport>> job_reports() = 0;

  /// Returns the reports of all loaded runs of a job, by number.
  virtual boost::asio::awaitable<std::vector<core::RunReport>> runs_of(const std::string& job) = 0;

  /// Closes all connections of a launch, see LaunchRuns::end().
  virtual Result<void> end_run(const std::string& job, const std::string& run) = 0;

  /// Writes a copy of the state to the new directory `path`.
  virtual boost::asio::awaitable<Result<void>> checkpoint(const std::string& path) = 0;

  /// Removes a job, see core::DirectoryHost::remove().
  virtual boost::asio::awaitable<Result<void>> remove_job(const std::string& job) = 0;

  /// Returns the endpoints of a job, by name. Fails with unavailable if the engine is not open.
  virtual Result<std::vector<EndpointReport>> endpoints_of(const std::string& job) = 0;

  /// Leases or renews an endpoint, see core::DirectoryHost::lease_endpoint().
  virtual boost::asio::awaitable<Result<EndpointReport>> lease_endpoint(
      const std::string& job, const LeaseEndpoint& request) = 0;

  /// Releases an endpoint, see core::DirectoryHost::release_endpoint().
  virtual boost::asio::awaitable<Result<void>> release_endpoint(const std::string& job,
                                                                const std::string& name) = 0;
};

}  // namespace c10dd::daemon
