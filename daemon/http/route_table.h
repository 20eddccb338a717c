// SPDX-License-Identifier: Apache-2.0
// The HTTP routes. To add a route: add one entry to the table in route_table.cc.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/sessions/grants.h"
#include "daemon/http/forwarding.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/operations.h"

namespace c10dd::daemon {

/// Where a request comes from.
struct RequestSource {
  /// The client is on this machine, or was on that of a daemon of the fleet that has passed the
  /// request on.
  bool local = false;
  bool metrics_only = false;  ///< it has come to the address of --listen-metrics
  bool host_known = true;     ///< the request's Host is one that replies_to() allows
  /// Set if this daemon asks who its clients are: what this one may do, or why that is not known.
  std::optional<Result<core::JobRoles>> roles = {};
};

/// A request that its route may serve, on the way to its reply.
struct RouteCall {
  Operations& operations;
  const HttpRequest& request;
  std::vector<std::string> names;           ///< percent-decoded values of {...} in the pattern
  std::vector<std::string> elsewhere = {};  ///< replies of other daemons, see FleetReply::all
  const core::JobRoles* roles = nullptr;    ///< of the client; null: he may do everything
  bool metrics_only = false;                ///< see RequestSource

  const std::string& job() const { return names.at(0); }
  bool wants_text() const { return request.accept.starts_with("text/"); }
};

/// An entry of the table.
struct Route {
  enum class Who {
    anybody,
    this_machine,  ///< clients on the machine of a daemon
  };

  const char* method;         ///< HEAD is served where GET is
  std::string_view pattern;   ///< "/v1/jobs/{job}/move"; the last {...} may have slashes
  std::string_view sentence;  ///< for the list of routes
  Who who = Who::anybody;
  std::string_view act = {};  ///< "remove a job": what others than `who` may not do
  /// What the client needs if the daemon asks who he is: this role in the job of the path; without
  /// a job in all jobs, or in any if `in_any`. Such a daemon does not look at `who`.
  core::Role role = core::Role::none;
  bool in_any = false;
  bool for_metrics = false;  ///< served at the address of --listen-metrics, too
  FleetReply fleet = FleetReply::here;
  /// Fails if the request can be refused before another daemon is asked; may be null.
  Result<void> (*check)(const HttpRequest&) = nullptr;
  boost::asio::awaitable<HttpReply> (*reply)(RouteCall&) = nullptr;
};

/// Returns the table.
std::span<const Route> all_routes();

/// Finds the route of a request, and returns its reply: of this daemon, or of those that serve the
/// job. Returns nothing if the client has gone meanwhile. The query of a target is ignored.
boost::asio::awaitable<std::optional<HttpReply>> reply_to(Operations& operations,
                                                          const HttpRequest& request,
                                                          const RequestSource& source,
                                                          const Forward& forward);

/// Returns the target in origin form, also if a client sent it in absolute form.
std::string origin_of(const HttpRequest& request);

}  // namespace c10dd::daemon
