// SPDX-License-Identifier: Apache-2.0
// Decides which daemon of the fleet answers an HTTP request about a job.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/operations.h"

namespace c10dd::daemon {

/// Passes the request on to one daemon, and returns its reply; nothing if the client is gone.
using Forward = std::function<boost::asio::awaitable<std::optional<HttpReply>>(const Peer&)>;

/// Who replies to a request in a fleet.
enum class FleetReply {
  here,   ///< this daemon: the request is about no job
  owner,  ///< the daemon that serves the job; this one if several do, as all know the reply
  /// The daemon that serves the job. Refused if several do.
  one_owner,
  /// The same, but this daemon if it serves a part.
  one_owner_or_here,
  all,  ///< all that serve the job: this daemon puts their replies together
};

/// The reply to a request about a job.
struct ForwardedReply {
  bool client_gone = false;
  /// Nothing: this daemon replies.
  std::optional<HttpReply> reply;
  std::vector<std::string> elsewhere = {};  ///< the parts that other daemons have of it
};

/// Finds out who replies to a request about a job, and gets the reply if it is not this daemon. A
/// request that was passed on before is not passed on again.
boost::asio::awaitable<ForwardedReply> reply_of_others(Operations& operations,
                                                       const HttpRequest& request,
                                                       const std::string& job, FleetReply who,
                                                       const Forward& forward);

}  // namespace c10dd::daemon
