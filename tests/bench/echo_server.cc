// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/echo_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

namespace c10dd::bench {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;

struct Peer {
  int descriptor;
  std::size_t unanswered = 0;  // bytes of requests
  std::size_t owed = 0;        // bytes of replies
  std::size_t sent = 0;        // of the reply that was last begun
  bool waits_for_room = false;
};

class Echo {
 public:
  Echo(const Descriptor& listener, std::size_t request_bytes, const std::string& reply)
      : listener_(listener),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        request_bytes_(request_bytes),
        reply_bytes_(reply.size()) {
    do {
      replies_ += reply;
    } while (replies_.size() < kBufferBytes);
    watch(listener.get(), EPOLL_CTL_ADD, EPOLLIN, nullptr);
  }

  void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int ready =
          ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      if (ready < 0 && errno != EINTR) return;
      for (int i = 0; i < ready; ++i) take(events[static_cast<std::size_t>(i)]);
    }
  }

 private:
  void watch(int descriptor, int operation, std::uint32_t interest, Peer* peer) {
    epoll_event event{};
    event.events = interest;
    event.data.ptr = peer;
    ::epoll_ctl(epoll_.get(), operation, descriptor, &event);
  }

  void take(const epoll_event& event) {
    auto* peer = static_cast<Peer*>(event.data.ptr);
    if (peer == nullptr) return accept();
    const bool alive = (event.events & EPOLLOUT) ? write(*peer) : read(*peer);
    if (alive) return;
    ::close(peer->descriptor);
    delete peer;
  }

  void accept() {
    const int accepted = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) return;
    const int on = 1;
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(accepted, EPOLL_CTL_ADD, EPOLLIN, new Peer{accepted});
  }

  bool read(Peer& peer) {
    const ssize_t length = ::recv(peer.descriptor, buffer_.data(), buffer_.size(), 0);
    if (length < 0) return errno == EAGAIN;
    if (length == 0) return false;
    peer.unanswered += static_cast<std::size_t>(length);
    peer.owed += peer.unanswered / request_bytes_ * reply_bytes_;
    peer.unanswered %= request_bytes_;
    return write(peer);
  }

  bool write(Peer& peer) {
    while (peer.owed > 0) {
      const std::size_t size = std::min(peer.owed, replies_.size() - peer.sent);
      const ssize_t sent = ::send(peer.descriptor, replies_.data() + peer.sent, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) return false;
      peer.owed -= static_cast<std::size_t>(sent);
      peer.sent = (peer.sent + static_cast<std::size_t>(sent)) % reply_bytes_;
    }
    if ((peer.owed > 0) != peer.waits_for_room) {
      peer.waits_for_room = peer.owed > 0;
      watch(peer.descriptor, EPOLL_CTL_MOD, peer.waits_for_room ? EPOLLOUT : EPOLLIN, &peer);
    }
    return true;
  }

  const Descriptor& listener_;
  Descriptor epoll_;
  std::size_t request_bytes_;
  std::size_t reply_bytes_;
  std::string replies_;  // the reply, many times
  std::vector<char> buffer_ = std::vector<char>(kBufferBytes);
};

}  // namespace

void serve_echo(const Descriptor& listener, std::size_t request_bytes, const std::string& reply) {
  Echo(listener, request_bytes, reply).run();
}

}  // namespace c10dd::bench
