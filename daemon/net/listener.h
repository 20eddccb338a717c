// SPDX-License-Identifier: Apache-2.0
// Accepts connections on one address and hands them to the Reception. A connection that the
// Admission refuses is handed over too, so that its client gets the reason. If too many refused
// connections are open, closes a new one at once. Connections outlive the listener. All functions
// are called on the listener's loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "daemon/config/listener_settings.h"
#include "daemon/net/admission.h"
#include "daemon/net/protocols.h"
#include "daemon/net/reception.h"
#include "daemon/net/session_context.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class Listener {
 public:
  /// `admission` must outlive the listener.
  Listener(asio::io_context& loop, ListenerSettings settings, Admission& admission);
  ~Listener() { *gone_ = true; }

  /// Binds to the address of the settings and listens; if it is a name, to all its addresses that
  /// this machine has, on one port. Fails with `unavailable` if the port is in use, with
  /// permission_denied if the port is privileged, and with invalid_argument for every other reason,
  /// for example because the host is not an address of this machine. After success clients can
  /// connect, but are not served before serve() is called.
  Result<void> open();
  /// Does the same, and returns the reason of the system if it fails.
  ErrorCode bind();

  /// Returns the bound host:port; of several, the first, which has IPv4 if any has. If port 0 was
  /// requested, the port is the one that the kernel chose.
  std::string address() const;
  /// Returns host:port as the settings have the host, if it is a name; otherwise address().
  std::string name() const;
  /// Returns all bound host:port.
  std::vector<std::string> addresses() const;
  /// Returns the address and the port of address().
  asio::ip::tcp::endpoint endpoint() const;
  /// Returns whether only this machine can reach the listener.
  bool is_loopback() const;

  /// Starts to accept. `context` must outlive all connections.
  void serve(const SessionContext& context, Protocols protocols);

  /// Stops accepting.
  void close();

 private:
  ErrorCode bind_to(const asio::ip::tcp::endpoint& endpoint, bool is_one_of_many);
  asio::awaitable<void> accept(asio::ip::tcp::acceptor& acceptor, std::shared_ptr<const bool> gone);
  void admit(asio::ip::tcp::socket accepted);

  asio::io_context& loop_;
  std::deque<asio::ip::tcp::acceptor> acceptors_;  ///< one for each address
  const ListenerSettings settings_;
  Admission& admission_;
  std::optional<Reception> reception_;
  const std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);  ///< outlives the listener
};

}  // namespace c10dd::daemon
