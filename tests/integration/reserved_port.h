// SPDX-License-Identifier: Apache-2.0
// A free port of 127.0.0.1, for a server that a test ends and starts again: nobody else gets it
// meanwhile, and whoever connects while no server listens is refused.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace c10dd::test {

/// A bound socket that never listens. It keeps the kernel from giving the port to somebody's
/// outgoing connection; a server with SO_REUSEADDR binds beside it.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (socket_ < 0 || ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(socket_, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      throw std::runtime_error("no free port");
    }
    number_ = ntohs(at.sin_port);
  }
  ~ReservedPort() { ::close(socket_); }
  ReservedPort(const ReservedPort&) = delete;

  std::uint16_t number() const { return number_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(number_); }

 private:
  int socket_;
  std::uint16_t number_ = 0;
};

}  // namespace c10dd::test
