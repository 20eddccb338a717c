// SPDX-License-Identifier: Apache-2.0
// Passes HTTP requests on to another daemon of the fleet. What is passed on: method, path, query,
// body, Accept and Content-Type, and two fields of c10dd's own: who passes it on, so that it is not
// passed on again, and, if the client may use the route, the secret of the other daemon. Routes
// that change something ask who the client is, or serve only clients on the daemon's machine; the
// secret, which is in the row of that daemon in the shared engine, shows that a daemon of the fleet
// has checked this.
//
// Threads: every call is made on the loop that accepts connections.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>

#include "daemon/http/operations.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/session_context.h"

namespace c10dd::daemon {

class Forwarder {
 public:
  static constexpr std::size_t kAtOnce = 16;
  static constexpr std::size_t kReplyBytes = 16 * 1024 * 1024;
  static constexpr std::chrono::seconds kTimeout{5};

  /// `self`: the address of this daemon, for the other one.
  Forwarder(Metrics& metrics, const SessionContext& context, std::string self)
      : metrics_(metrics), context_(context), self_(std::move(self)) {}

  /// Sends the request to the first address of `to` that takes the connection, and returns the
  /// reply unchanged. If there is none, returns 502, 503 or 504 with a sentence.
  boost::asio::awaitable<HttpReply> forward(const HttpRequest& request, const Peer& to,
                                            bool trusted);

 private:
  Metrics& metrics_;
  const SessionContext& context_;
  const std::string self_;
  std::size_t in_flight_ = 0;
};

}  // namespace c10dd::daemon
