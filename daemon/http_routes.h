// SPDX-License-Identifier: Apache-2.0
// What the HTTP side answers to whom: a pure function of the request and what the daemon says of
// itself. To add a route: a line in http_routes.cc.
#pragma once

#include <chrono>
#include <string>

#include "daemon/http_wire.h"

namespace c10dd::daemon {

struct ServerFacts {
  std::string version;
  std::string engine;
  std::string durability;
  std::string not_ready;  ///< why requests are not served; empty when they are
  std::chrono::duration<double> uptime{0};
  std::string metrics;  ///< only when wants_metrics()
};

/// Whether the answer is the text of the metrics, which is worth making only then.
bool wants_metrics(const HttpRequest& request);

HttpReply handle(const HttpRequest& request, const ServerFacts& facts);

}  // namespace c10dd::daemon
