// SPDX-License-Identifier: Apache-2.0
// The HTTP routes. A reply is a pure function of the request and of facts about the daemon. To add
// a route: add a line to the table in routes.cc.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/http/endpoint_page.h"
#include "daemon/http/fleet_page.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/job_page.h"

namespace c10dd::daemon {

struct ServerFacts {
  std::string version;
  std::string engine;
  std::string durability;
  std::string not_ready;  ///< reason why requests are refused; empty if they are served
  std::string note;       ///< a restriction under which requests are served; may be empty
  std::chrono::duration<double> uptime{0};
  bool local = false;  ///< the client is on this machine, or was on that of a daemon of the fleet
                       ///< that has passed its request on
  bool host_known = true;  ///< the request's Host is one that replies_to() allows

  // The result of the work that need_of() asked for. Need::metrics sets `metrics`, Need::daemons
  // sets `daemons`, Need::jobs sets `jobs`, Need::move sets `moved`, Need::job sets `page`,
  // Need::checkpoint sets `checkpoint`, Need::removal sets `removed`, Need::end sets `ended`,
  // Need::endpoints sets `endpoints`, Need::lease sets `leased` and Need::release sets `released`.
  std::string metrics;
  DaemonsPage daemons;
  JobsPage jobs;
  JobPage page;
  Result<void> checkpoint;
  Result<void> removed;
  Result<void> ended;
  Result<std::vector<EndpointReport>> endpoints;
  Result<EndpointReport> leased;
  Result<void> released;
  Result<MoveReport> moved;
  std::vector<std::string> moved_elsewhere;  ///< the replies of other daemons to the same request
};

/// What must be fetched or done for a request before handle() is called.
enum class Need {
  nothing,
  metrics,
  daemons,
  jobs,
  job,
  checkpoint,
  removal,
  end,
  endpoints,
  lease,
  release,
  move
};

/// Returns what must be fetched or done before handle() is called. Returns Need::nothing for a
/// request that handle() will refuse.
Need need_of(const HttpRequest& request, const ServerFacts& facts);

/// Returns the directory that the body of a checkpoint request names. Fails if the content type or
/// the body is invalid, or if the path is not absolute.
Result<std::string> checkpoint_path(const HttpRequest& request);

/// Returns the percent-decoded name of the job in a target below /v1/jobs/.
Result<std::string> job_of(const HttpRequest& request);

/// Returns the percent-decoded name of the job in a target /v1/jobs/{job}/move.
Result<std::string> job_of_move(const HttpRequest& request);

/// Returns the target in origin form, also if a client sent it in absolute form.
std::string origin_of(const HttpRequest& request);

/// Returns the percent-decoded names in a target /v1/jobs/{job}/runs/{run}.
struct RunName {
  std::string job;
  std::string run;
};
Result<RunName> run_of(const HttpRequest& request);

/// Returns the percent-decoded name of the job in a target /v1/jobs/{job}/endpoints, also if the
/// name of an endpoint follows.
Result<std::string> job_of_endpoints(const HttpRequest& request);

/// Returns the name of the endpoint to release: the rest of a target
/// /v1/jobs/{job}/endpoints/{name}, or the name in the body if the target ends before it.
Result<std::string> endpoint_to_release(const HttpRequest& request);

/// Returns the reply to a request. The caller must have fetched or done what need_of() returns for
/// the request, and must pass the result in `facts`.
HttpReply handle(const HttpRequest& request, const ServerFacts& facts);

}  // namespace c10dd::daemon
