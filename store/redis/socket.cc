// SPDX-License-Identifier: Apache-2.0
#include "store/redis/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::store {
namespace {

using Clock = std::chrono::steady_clock;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Failure failed(int error) { return failure(Code::unavailable, "{}", std::strerror(error)); }

Result<Addresses> look_up(const std::string& host, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error == EAI_SYSTEM) return failed(errno);
  if (error != 0) return failure(Code::unavailable, "{}", ::gai_strerror(error));
  return Addresses(found);
}

/// Returns the poll() time that remains until `deadline`, in whole milliseconds.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

/// Waits until one of `events` has happened, or the deadline has passed. Returns 0 or an error.
int wait_until(int descriptor, short events, Clock::time_point deadline) {
  pollfd one{descriptor, events, 0};
  while (true) {
    const int ready = ::poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return 0;
    if (ready == 0) return ETIMEDOUT;
    if (errno != EINTR) return errno;
  }
}

/// Returns 0 if the socket is connected before the deadline, else an error.
int connect_until(int descriptor, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (const int error = wait_until(descriptor, POLLOUT, deadline); error != 0) return error;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// Sends each command at once. Lets keepalives, and bytes that nobody acknowledges, end a
/// connection to a host that is gone, also while no call waits for it.
void configure(int descriptor, Duration patience) {
  const auto set = [descriptor](int level, int option, int value) {
    ::setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience / std::chrono::milliseconds(1)));
}

}  // namespace

Result<RedisSocket> RedisSocket::connect(const std::string& host, std::uint16_t port,
                                         Duration patience) {
  Result<Addresses> addresses = look_up(host, port);
  if (!addresses) return addresses.error();
  const Clock::time_point deadline = Clock::now() + patience;
  int error = 0;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    const int descriptor =
        ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    if (descriptor < 0) {
      error = errno;
      continue;
    }
    RedisSocket made(descriptor, patience);  // closes the descriptor if it is given up
    error = connect_until(descriptor, *one, deadline);
    if (error != 0) continue;
    configure(descriptor, patience);
    return made;
  }
  if (error == ETIMEDOUT)
    return failure(Code::unavailable, "cannot connect within {}", human(patience));
  return failed(error);
}

RedisSocket::RedisSocket(RedisSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), patience_(other.patience_) {}

RedisSocket::~RedisSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> RedisSocket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (Result<void> ready = wait(POLLOUT); !ready) return ready;
    } else if (errno != EINTR) {
      return failed(errno);
    }
  }
  return {};
}

Result<std::size_t> RedisSocket::receive(std::span<char> into) {
  while (true) {
    const ssize_t received = ::recv(descriptor_, into.data(), into.size(), 0);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) return failure(Code::unavailable, "the server closed the connection");
    if (errno == EAGAIN) {
      if (Result<void> ready = wait(POLLIN); !ready) return ready.error();
    } else if (errno != EINTR) {
      return failed(errno);
    }
  }
}

Result<void> RedisSocket::wait(short events) const {
  const int error = wait_until(descriptor_, events, Clock::now() + patience_);
  if (error == 0) return {};
  if (error == ETIMEDOUT) return failure(Code::unavailable, "no reply within {}", human(patience_));
  return failed(error);
}

}  // namespace c10dd::store
