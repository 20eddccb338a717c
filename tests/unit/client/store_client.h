// SPDX-License-Identifier: Apache-2.0
// A client of PyTorch's TCPStore whose messages a test writes itself.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "client/internal/socket.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::test {

class StoreClient {
 public:
  using Query = tcpstore::Query;
  using Dialect = tcpstore::Dialect;

  explicit StoreClient(std::uint16_t port, Dialect dialect = Dialect::v) : dialect_(dialect) {
    auto made = client::dial("127.0.0.1:" + std::to_string(port), -1, std::chrono::seconds(60));
    if (made) socket_ = std::move(*made);
    if (dialect == Dialect::v) send({.query = Query::validate, .number = tcpstore::kMagic});
  }

  void send(const tcpstore::Message& message) { send_bytes(bytes_of(message)); }
  Bytes bytes_of(const tcpstore::Message& message) const {
    Bytes out;
    encode_message(out, dialect_, message);
    return out;
  }
  /// Sends all bytes, or fails the test if the other end does not take them within 60 s.
  void send_bytes(std::string_view bytes) {
    pollfd polled{socket_.get(), POLLOUT, 0};
    while (!bytes.empty()) {
      ASSERT_EQ(::poll(&polled, 1, 60'000), 1);
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Returns so many bytes; fewer if no more come within 60 s, or at the end of the connection.
  Bytes receive(std::size_t bytes) {
    Bytes in;
    pollfd polled{socket_.get(), POLLIN, 0};
    while (in.size() < bytes && ::poll(&polled, 1, 60'000) > 0) {
      char part[65536];
      const ssize_t n = ::recv(socket_.get(), part, std::min(bytes - in.size(), sizeof part), 0);
      if (n <= 0) break;
      in.append(part, static_cast<std::size_t>(n));
    }
    return in;
  }
  /// Returns whether the other end closes the connection, with nothing sent before.
  bool ends() {
    pollfd polled{socket_.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&polled, 1, 60'000) > 0 && ::recv(socket_.get(), &byte, 1, 0) == 0;
  }
  /// Says which process this is.
  void say_pid(std::int64_t pid) {
    send({.query = Query::ping, .number = pid});
    EXPECT_EQ(receive(4).size(), 4u);
  }
  /// Adds 1 to a key and returns the sum; -1 without a reply.
  std::int64_t add(std::string_view key) {
    send({.query = Query::add, .key = key, .number = 1});
    const Bytes reply = receive(8);
    std::int64_t sum = -1;
    if (reply.size() == 8) std::copy(reply.begin(), reply.end(), reinterpret_cast<char*>(&sum));
    return sum;
  }

 private:
  Dialect dialect_;
  client::Descriptor socket_;
};

}  // namespace c10dd::test
