// SPDX-License-Identifier: Apache-2.0
// A server on 127.0.0.1 that replies to each request as a test says, on any number of connections.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/client/thrown_error.h"

namespace c10dd::test {

struct FakeRequest {
  std::string name;      ///< of the request
  std::string argument;  ///< on which a good reply depends
};

struct FakeReply {
  enum class Then : std::uint8_t { go_on, close, repeat };

  std::string bytes;
  Then then = Then::go_on;  ///< repeat: send the last 64 KiB of the bytes again and again
};

class FakeServer {
 public:
  /// Removes the first whole request from the input.
  using Take = std::function<std::optional<FakeRequest>(std::string& in)>;
  using Good = std::function<FakeReply(const FakeRequest&)>;

  /// `receive_buffer`: how many bytes the kernel takes before the server reads; 0: as usual.
  FakeServer(Take take, Good good, int receive_buffer = 0)
      : take_(std::move(take)), good_(std::move(good)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      ::setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    EXPECT_EQ(::bind(listener_, any, size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, any, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    acceptor_ = std::thread([this] { accept(); });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int connection : connections_) ::close(connection);
    ::close(listener_);
  }
  FakeServer(const FakeServer&) = delete;

  const std::string& address() const { return address_; }

  /// From now on, requests of this name get this reply, and all others a good one.
  void reply_with(const std::string& name, FakeReply bad) {
    const std::lock_guard lock(mutex_);
    name_ = name;
    bad_ = std::move(bad);
  }

 private:
  void accept() {
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      connections_.push_back(connection);
      threads_.emplace_back([this, connection] {
        serve(connection);
        ::shutdown(connection, SHUT_RDWR);
      });
    }
  }

  void serve(int connection) {
    std::string in;
    std::array<char, 65536> buffer;
    while (true) {
      const auto asked = take_(in);
      if (!asked) {
        const ssize_t got = ::recv(connection, buffer.data(), buffer.size(), 0);
        if (got <= 0) return;
        in.append(buffer.data(), static_cast<std::size_t>(got));
        continue;
      }
      const FakeReply reply = reply_to(*asked);
      if (!send(connection, reply.bytes) || reply.then == FakeReply::Then::close) return;
      const std::string again =
          reply.bytes.substr(reply.bytes.size() - std::min<std::size_t>(65536, reply.bytes.size()));
      while (reply.then == FakeReply::Then::repeat && send(connection, again)) {
      }
    }
  }

  FakeReply reply_to(const FakeRequest& asked) {
    const std::lock_guard lock(mutex_);
    return asked.name == name_ ? bad_ : good_(asked);
  }

  static bool send(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const Take take_;
  const Good good_;
  int listener_ = -1;
  std::string address_;
  std::vector<std::thread> threads_;  // one for each connection; the acceptor adds both
  std::vector<int> connections_;
  std::thread acceptor_;
  std::mutex mutex_;
  std::string name_;
  FakeReply bad_;
};

/// Expects that the call has failed with one of these codes, and that a terminal may show the text.
inline void expect_refused(const std::pair<Code, std::string>& error, std::vector<Code> codes,
                           const std::string& what) {
  EXPECT_NE(std::find(codes.begin(), codes.end(), error.first), codes.end())
      << what << ": " << name_of(error.first) << ": " << error.second;
  for (const char c : error.second) EXPECT_FALSE(c == '\x1b' || c == '\n') << what;
}

}  // namespace c10dd::test
