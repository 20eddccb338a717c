// SPDX-License-Identifier: Apache-2.0
// Ports for tests that listen on ports that they choose: on an address of this process, so that no
// other process takes them.
#pragma once

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <string>

namespace c10dd::daemon {

/// Returns a loopback address that no other test process has at the same time.
inline std::string own_host() {
  const unsigned pid = static_cast<unsigned>(::getpid());
  return "127." + std::to_string(64 + pid / 64'516 % 128) + "." +
         std::to_string(1 + pid / 254 % 254) + "." + std::to_string(1 + pid % 254);
}

/// Another process that listens on a port of own_host(); port 0: any.
class PortHolder {
 public:
  explicit PortHolder(std::uint16_t port)
      : acceptor_(loop_, {boost::asio::ip::make_address(own_host()), port}) {}

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  boost::asio::io_context loop_;
  boost::asio::ip::tcp::acceptor acceptor_;
};

/// Returns the first of three ports in a row that are free.
inline std::uint16_t three_free_ports() {
  while (true) {
    const std::uint16_t first = PortHolder(0).port();
    if (first > 65'000) continue;
    try {
      const PortHolder one(first);
      const PortHolder two(static_cast<std::uint16_t>(first + 1));
      const PortHolder three(static_cast<std::uint16_t>(first + 2));
      return first;
    } catch (const boost::system::system_error&) {  // somebody listens on all addresses
    }
  }
}

}  // namespace c10dd::daemon
