// SPDX-License-Identifier: Apache-2.0
// A listening socket whose connections a test accepts itself, or leaves alone.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "client/internal/socket.h"

namespace c10dd::test {

class ListeningSocket {
 public:
  /// `port` 0: a free one. With `backlog` 0 the second connection that is not accepted gets no
  /// answer.
  explicit ListeningSocket(const char* host = "127.0.0.1", std::uint16_t port = 0, int backlog = 16)
      : host_(host), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, host, &address.sin_addr), 1);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_.get(), any, size), 0);
    EXPECT_EQ(::listen(socket_.get(), backlog), 0);
    EXPECT_EQ(::getsockname(socket_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }

  std::uint16_t port() const { return port_; }
  std::string address() const { return host_ + ":" + std::to_string(port_); }

  /// Waits for a connection, for at most 60 s.
  client::Descriptor accept() const {
    pollfd ready{socket_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
    return client::Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  /// Returns whether a connection waits to be accepted.
  bool has_connection() const {
    pollfd ready{socket_.get(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }

 private:
  std::string host_;
  std::uint16_t port_ = 0;
  client::Descriptor socket_;
};

}  // namespace c10dd::test
