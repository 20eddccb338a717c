// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/ended_connections.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace c10dd::daemon {

bool has_ended(int socket) {
  pollfd polled{socket, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

EndedConnections::EndedConnections() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

EndedConnections::~EndedConnections() { ::close(epoll_); }

void EndedConnections::watch(int socket, std::uint64_t connection) {
  epoll_event event{};
  // Once, because the socket stays in this state until its loop closes it.
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  event.data.u64 = connection;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
}

std::vector<std::uint64_t> EndedConnections::take() {
  std::vector<std::uint64_t> ended;
  std::array<epoll_event, 256> events;
  int count = 0;
  do {
    count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) ended.push_back(events[static_cast<std::size_t>(i)].data.u64);
  } while (count == static_cast<int>(events.size()) || (count < 0 && errno == EINTR));
  return ended;
}

}  // namespace c10dd::daemon
