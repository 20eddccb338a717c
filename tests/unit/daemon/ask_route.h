// SPDX-License-Identifier: Apache-2.0
// Asks a fake daemon for the reply to one request, without a connection.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <string>

#include "daemon/http/route_table.h"
#include "tests/unit/daemon/fake_operations.h"

namespace c10dd::daemon {

/// Returns the reply of a daemon that serves all jobs itself.
inline HttpReply reply_of(FakeOperations& operations, const HttpRequest& request,
                          const RequestSource& source) {
  boost::asio::io_context loop;
  std::optional<HttpReply> got;
  const auto forward = [](const Peer&) -> boost::asio::awaitable<std::optional<HttpReply>> {
    co_return std::nullopt;
  };
  boost::asio::co_spawn(loop, reply_to(operations, request, source, forward),
                        [&](const std::exception_ptr& thrown, std::optional<HttpReply> reply) {
                          if (thrown) std::rethrow_exception(thrown);
                          got = std::move(reply);
                        });
  loop.run();
  return got.value();
}

/// A daemon, and whether its client is on this machine.
struct AskedDaemon {
  HttpReply ask(const HttpRequest& request) {
    operations.asked.clear();
    return reply_of(operations, request, {.local = local});
  }
  HttpReply ask(const std::string& method, const std::string& target) {
    return ask(HttpRequest{method, target, true});
  }
  int status(const std::string& method, const std::string& target) {
    return ask(method, target).status;
  }
  /// The calls that the last request has led to.
  const std::vector<std::string>& asked() const { return operations.asked; }

  FakeOperations operations;
  bool local = false;
};

}  // namespace c10dd::daemon
