// SPDX-License-Identifier: Apache-2.0
// Decides which daemon of the fleet answers an HTTP request about a job.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>

#include "daemon/http/operations.h"

namespace c10dd::daemon {

/// Passes the request on to one daemon, and returns its reply; nothing if the client is gone.
using Forward = std::function<boost::asio::awaitable<std::optional<HttpReply>>(const Peer&)>;

/// The reply to a request about a job.
struct ForwardedReply {
  bool client_gone = false;
  /// Nothing: this daemon replies. If other daemons have a part of the reply, it is in the facts.
  std::optional<HttpReply> reply;
};

/// Finds out who replies to a request with this need, and gets the reply if it is not this daemon.
/// A request that was passed on before is not passed on again. The request must not be refused:
/// `need` is what need_of() has returned.
boost::asio::awaitable<ForwardedReply> reply_of_others(Operations& operations,
                                                       const HttpRequest& request, Need need,
                                                       ServerFacts& facts, const Forward& forward);

}  // namespace c10dd::daemon
