// SPDX-License-Identifier: Apache-2.0
// What the routes show and ask of the daemon.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/http/routes.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Called on the loop that accepts connections, and answers there.
class Operations {
 public:
  virtual ~Operations() = default;

  /// What is at hand, and the same for every client.
  virtual ServerFacts facts() const = 0;

  /// The text of /metrics, from a fresh snapshot.
  virtual boost::asio::awaitable<std::string> metrics_text() = 0;

  /// All jobs that are loaded.
  virtual boost::asio::awaitable<std::vector<core::JobReport>> job_reports() = 0;

  /// Writes a copy of the state.
  virtual boost::asio::awaitable<Result<void>> checkpoint(const std::string& path) = 0;

  /// Removes a job, see EngineHost::remove.
  virtual boost::asio::awaitable<Result<void>> remove_job(const std::string& job) = 0;
};

}  // namespace c10dd::daemon
