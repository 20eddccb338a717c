// SPDX-License-Identifier: Apache-2.0
// What the HTTP side answers to whom: a pure function of the request and what the daemon says of
// itself. To add a route: a line in routes.cc.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/http/http_wire.h"

namespace c10dd::daemon {

struct ServerFacts {
  std::string version;
  std::string engine;
  std::string durability;
  std::string not_ready;  ///< why requests are not served; empty when they are
  std::string note;       ///< what to know though they are served; empty when there is nothing
  std::chrono::duration<double> uptime{0};
  bool local = false;      ///< the client is on this machine
  bool host_known = true;  ///< the request is for a name that is answered to

  // What some routes need, see need_of().
  std::string metrics;
  std::vector<core::JobReport> jobs;
  Result<void> checkpoint;
  Result<void> removed;
};

/// What is worth making only for the route that answers with it.
enum class Need { nothing, metrics, jobs, checkpoint, removal };
Need need_of(const HttpRequest& request, const ServerFacts& facts);

/// Where the checkpoint goes that a request asks for.
Result<std::string> checkpoint_path(const HttpRequest& request);

/// The job that a request asks to remove; its name is percent-encoded.
Result<std::string> job_to_remove(const HttpRequest& request);

HttpReply handle(const HttpRequest& request, const ServerFacts& facts);

}  // namespace c10dd::daemon
