// SPDX-License-Identifier: Apache-2.0
// Keeps connections that send nothing. A client of TCPStore before PyTorch 2.1 opens a second
// connection for events, which it never uses. Such a connection is kept only beside a live
// connection of an old client of the same address, one each.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// All functions are called on the loop that accepts connections.
class SilentSockets {
 public:
  using Address = boost::asio::ip::address;

  /// `serve` gets a connection that is silent no more. `dropped` is called when one was closed.
  SilentSockets(std::function<void(std::shared_ptr<Stream>)> serve, std::function<void()> dropped)
      : serve_(std::move(serve)), dropped_(std::move(dropped)) {}

  /// Closes all connections.
  ~SilentSockets();
  SilentSockets(const SilentSockets&) = delete;
  SilentSockets& operator=(const SilentSockets&) = delete;

  /// Counts a connection of an old client.
  void old_client_began(const Address& address) { ++addresses_[address].clients; }
  void old_client_ended(const Address& address);

  /// Keeps a connection until it sends something or ends. Returns false if there is no old client
  /// without a silent connection.
  bool keep(const std::shared_ptr<Stream>& stream);

  std::size_t kept() const { return kept_; }

 private:
  class Socket;
  struct Peer {
    std::size_t clients = 0;
    std::list<std::shared_ptr<Socket>> silent;
  };

  void woken(const std::shared_ptr<Socket>& socket, std::size_t bytes);

  const std::function<void(std::shared_ptr<Stream>)> serve_;
  const std::function<void()> dropped_;
  std::map<Address, Peer> addresses_;
  std::size_t kept_ = 0;
};

}  // namespace c10dd::daemon
