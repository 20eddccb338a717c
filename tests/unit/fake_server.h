// SPDX-License-Identifier: Apache-2.0
// A server on 127.0.0.1 that replies to each request as a test says, on any number of connections.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
  std::string late = {};    ///< sent after the bytes, but not before release()
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
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    released_.notify_all();
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

  /// From now on, requests of this name get these replies one after the other, and the last one for
  /// ever. Several names may have such replies.
  void say(const std::string& name, std::deque<FakeReply> replies) {
    const std::lock_guard lock(mutex_);
    said_[name] = std::move(replies);
  }

  /// Sends the late bytes that are kept back now.
  void release() {
    const std::lock_guard lock(mutex_);
    ++releases_;
    released_.notify_all();
  }
  /// On how many connections late bytes are kept back.
  int held() const { return locked(held_); }
  /// How many requests of this name have come.
  int asked(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(name);
    return found == asked_.end() ? 0 : found->second;
  }
  /// How many connections have been made, and how many of them neither side has closed.
  int connections() const { return locked(made_); }
  int open_connections() const { return locked(open_); }

 private:
  void accept() {
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      connections_.push_back(connection);
      change(made_, 1);
      change(open_, 1);
      threads_.emplace_back([this, connection] {
        serve(connection);
        ::shutdown(connection, SHUT_RDWR);
        change(open_, -1);
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
      if (!send(connection, reply.bytes)) return;
      if (!reply.late.empty()) wait_for_release();
      if (!send(connection, reply.late) || reply.then == FakeReply::Then::close) return;
      const std::string again =
          reply.bytes.substr(reply.bytes.size() - std::min<std::size_t>(65536, reply.bytes.size()));
      while (reply.then == FakeReply::Then::repeat && send(connection, again)) {
      }
    }
  }

  FakeReply reply_to(const FakeRequest& asked) {
    const std::lock_guard lock(mutex_);
    ++asked_[asked.name];
    if (asked.name == name_) return bad_;
    const auto said = said_.find(asked.name);
    if (said == said_.end()) return good_(asked);
    FakeReply reply = said->second.front();
    if (said->second.size() > 1) said->second.pop_front();
    return reply;
  }

  void wait_for_release() {
    std::unique_lock lock(mutex_);
    ++held_;
    released_.wait(lock, [this, before = releases_] { return ends_ || releases_ != before; });
    --held_;
  }

  int locked(const int& number) const {
    const std::lock_guard lock(mutex_);
    return number;
  }
  void change(int& number, int by) {
    const std::lock_guard lock(mutex_);
    number += by;
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
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::string name_;
  FakeReply bad_;
  std::map<std::string, std::deque<FakeReply>> said_;
  std::map<std::string, int> asked_;
  int releases_ = 0;
  int held_ = 0;
  int made_ = 0;
  int open_ = 0;
  bool ends_ = false;
};

/// Expects that the call has failed with one of these codes, and that a terminal may show the text.
inline void expect_refused(const std::pair<Code, std::string>& error, std::vector<Code> codes,
                           const std::string& what) {
  EXPECT_NE(std::find(codes.begin(), codes.end(), error.first), codes.end())
      << what << ": " << name_of(error.first) << ": " << error.second;
  for (const char c : error.second) EXPECT_FALSE(c == '\x1b' || c == '\n') << what;
}

}  // namespace c10dd::test
