// SPDX-License-Identifier: Apache-2.0
// A bad network between clients and a daemon: passes bytes on, loses what the daemon says, is cut.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace c10dd::test {

class FaultyLink {
 public:
  /// Passes connections on to host:port of an IPv4 address.
  explicit FaultyLink(const std::string& target) {
    const std::size_t colon = target.rfind(':');
    target_.sin_family = AF_INET;
    target_.sin_port = htons(static_cast<std::uint16_t>(std::stoi(target.substr(colon + 1))));
    inet_pton(AF_INET, target.substr(0, colon).c_str(), &target_.sin_addr);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      throw std::runtime_error("the link cannot listen");
    }
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~FaultyLink() {
    stop_ = true;
    thread_.join();
    for (const Pair& pair : pairs_) drop(pair);
    ::close(listener_);
  }
  FaultyLink(const FaultyLink&) = delete;

  const std::string& address() const { return address_; }

  enum class Mode { pass, lose_replies, cut };
  /// Holds from now on. cut ends all connections, new ones too.
  void set(Mode mode) {
    mode_ = mode;
    const unsigned before = turns_;
    while (turns_ == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  struct Pair {
    int client;
    int daemon;
  };

  static void drop(const Pair& pair) {
    ::close(pair.client);
    ::close(pair.daemon);
  }

  void accept_one(Mode mode) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const Pair pair{client, ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (mode == Mode::cut ||
        ::connect(pair.daemon, reinterpret_cast<sockaddr*>(&target_), sizeof target_) != 0) {
      return drop(pair);
    }
    const int on = 1;
    ::setsockopt(pair.client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(pair.daemon, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pairs_.push_back(pair);
  }

  /// False at the end of either connection.
  bool pass(int from, int to, bool lose) {
    const ssize_t n = ::recv(from, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    for (ssize_t at = 0; !lose && at < n;) {
      const ssize_t sent =
          ::send(to, buffer_.data() + at, static_cast<std::size_t>(n - at), MSG_NOSIGNAL);
      if (sent < 0) return false;
      at += sent;
    }
    return true;
  }

  void run() {
    while (!stop_) {
      ++turns_;
      const Mode mode = mode_;
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        polled.push_back({pair.client, POLLIN, 0});
        polled.push_back({pair.daemon, POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), 5);
      pairs_.remove_if([&](const Pair& pair) {
        if (mode != Mode::cut && pass(pair.client, pair.daemon, false) &&
            pass(pair.daemon, pair.client, mode == Mode::lose_replies)) {
          return false;
        }
        drop(pair);
        return true;
      });
      if (polled[0].revents != 0) accept_one(mode);
    }
  }

  sockaddr_in target_{};
  int listener_ = -1;
  std::string address_;
  std::list<Pair> pairs_;
  std::vector<char> buffer_ = std::vector<char>(65536);
  std::atomic<Mode> mode_ = Mode::pass;
  std::atomic<unsigned> turns_ = 0;  // each with the mode that it began with
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace c10dd::test
