// SPDX-License-Identifier: Apache-2.0
// Accepts connections on one address and tells protocols apart by their first bytes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "daemon/metrics/metrics.h"
#include "daemon/net/admission.h"
#include "daemon/net/stream.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class Server;

class Listener {
 public:
  Listener(asio::io_context& loop, Server& server);

  /// Binds and listens; unavailable when the port is in use, invalid_argument for a bad host.
  Result<void> open(const std::string& host, std::uint16_t port);

  /// host:port that is really bound.
  std::string address() const;

  /// Accepts no more.
  void close();

 private:
  asio::awaitable<void> accept();
  void welcome(asio::ip::tcp::socket accepted);
  bool wants_more(std::string_view head, bool admitted) const;
  asio::awaitable<void> recognise(asio::ip::tcp::socket accepted, Ticket ticket,
                                  Result<void> admitted);
  asio::awaitable<void> refuse(Stream stream, Protocol protocol, Failure reason);

  asio::io_context& loop_;
  Server& server_;
  asio::ip::tcp::acceptor acceptor_;
  Admission admission_;
};

}  // namespace c10dd::daemon
