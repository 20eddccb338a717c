// SPDX-License-Identifier: Apache-2.0
// The bodies of /v1/jobs/{job}/endpoints: the request for an endpoint, and the endpoints of a job.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/core/directory/directory_host.h"
#include "daemon/http/http_wire.h"
#include "protocol/ops.h"

namespace boost::json {
class object;
}

namespace c10dd::daemon {

struct EndpointReport {
  core::Endpoint endpoint;
  std::string host;             ///< the address that the daemon listens on
  std::size_t connections = 0;  ///< open now
  std::string problem;          ///< why the endpoint cannot be reached; empty if it can
};

/// Reads the JSON body of a request that needs one, and returns its members. Fails with
/// invalid_argument if the content type is not JSON, or if the body is not a JSON object. `what`
/// names the request in the failure, and `example` is a valid body.
Result<boost::json::object> json_body(const HttpRequest& request, const std::string& what,
                                      const std::string& example);

/// Reads the body of a POST: {"name": "a", "run": "r", "ttl": 600, "world_size": 8}, where only the
/// name is needed. Fails with invalid_argument if a member is unknown, has another type, or a value
/// that no endpoint has.
Result<LeaseEndpoint> lease_of(const HttpRequest& request);

/// Reads the body of a DELETE: {"name": "a"}.
Result<std::string> released_name(const HttpRequest& request);

std::string json_of(const EndpointReport& report);
std::string json_of(const std::string& job, const std::vector<EndpointReport>& reports);

}  // namespace c10dd::daemon
