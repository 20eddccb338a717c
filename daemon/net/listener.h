// SPDX-License-Identifier: Apache-2.0
// Accepts connections on one address, as far as there may be so many, and hands them to their
// reception.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "daemon/net/admission.h"
#include "daemon/net/protocols.h"
#include "daemon/net/reception.h"
#include "daemon/net/session_context.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class Listener {
 public:
  Listener(asio::io_context& loop, const Options& options);

  /// Binds and listens; unavailable when the port is in use, invalid_argument for a bad host. Who
  /// connects waits until serve().
  Result<void> open(const std::string& host, std::uint16_t port);

  /// host:port that is really bound.
  std::string address() const;

  /// Accepts from now on.
  void serve(const SessionContext& context, Protocols protocols);

  /// Accepts no more.
  void close();

 private:
  asio::awaitable<void> accept();
  void welcome(asio::ip::tcp::socket accepted);

  asio::io_context& loop_;
  asio::ip::tcp::acceptor acceptor_;
  Admission admission_;
  std::optional<Reception> reception_;
};

}  // namespace c10dd::daemon
