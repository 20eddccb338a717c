// SPDX-License-Identifier: Apache-2.0
// Opens TCP connections. The kernel also detects a dead peer, in case the heartbeats do not: it
// sends keepalive probes and limits the age of unacknowledged data.
#include "client/internal/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "client/internal/resolver.h"
#include "protocol/address.h"
#include "protocol/format.h"

namespace c10dd::client {
namespace {

/// Connects the socket. Returns 0, or the error number: ETIMEDOUT after `patience`, EINTR if
/// `interrupt` became readable.
int connect_to(const Descriptor& socket, const SocketAddress& to, int interrupt,
               Duration patience) {
  if (connect(socket.get(), to.get(), to.size()) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd polled[] = {{socket.get(), POLLOUT, 0}, {interrupt, POLLIN, 0}};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  const int ready = poll(polled, 2, static_cast<int>(ms));
  if (ready < 0 || polled[1].revents != 0) return EINTR;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ < 0 || in_child_.closed()) return;
  in_child_ = ForkClosed();  // first, because the number may be used again at once
  close(fd_);
}

std::string error_text(int number) {
  std::string text = std::generic_category().message(number);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

Result<Descriptor> dial(const std::string& address, int interrupt, Duration patience) {
  const Result<AddressParts> parts = split_address(address);
  if (!parts || !parts->port) {
    return failure(Code::invalid_argument, "address {}: {}", address,
                   parts ? "the port is missing" : parts.error().detail);
  }
  const NamedServer server{std::string(parts->host), std::string(*parts->port)};
  Result<std::vector<SocketAddress>> found = resolve(server, interrupt, patience);
  if (!found) return found.error();
  DialFailures failures;
  for (const SocketAddress& to : *found) {
    Descriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      failures.add(errno);
      continue;
    }
    socket.close_in_children();
    set_client_options(socket.get());
    const int error = connect_to(socket, to, interrupt, patience);
    if (error == 0) return socket;
    failures.add(error);
    if (error == EINTR) break;  // interrupted: try no further address
  }
  return failures.failure();
}

void DialFailures::add(int error) {
  const bool no_route = error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == ENETUNREACH;
  last_ = error;
  refused_ = refused_ || error == ECONNREFUSED;
  silent_ = silent_ || (error != ECONNREFUSED && !no_route);
}

Failure DialFailures::failure() const {
  const bool none_listens = refused_ && !silent_;
  return c10dd::failure(none_listens ? Code::not_found : Code::unavailable,
                        "connect: " + error_text(last_));
}

void set_client_options(int socket) {
  const auto set = [&](int level, int name, int value) {
    // An option that the kernel does not have is ignored: the connection works without it.
    static_cast<void>(setsockopt(socket, level, name, &value, sizeof value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
  // Keep the socket's send buffer small. A full buffer takes more bytes only after the peer has
  // read bytes, so Core knows during a large request that the peer is alive.
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024);
}

bool peer_is_elsewhere(int socket) {
  const auto host_of = [&](auto get_name) -> std::string {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* const address = reinterpret_cast<sockaddr*>(&storage);
    return get_name(socket, address, &size) == 0 ? SocketAddress(address, size).host() : "";
  };
  const std::string peer = host_of(getpeername);
  return !peer.empty() && !is_loopback(peer) && peer != host_of(getsockname);
}

std::string first_words(const std::string& address, std::string_view probe, int interrupt,
                        Duration patience) {
  const Result<Descriptor> socket = dial(address, interrupt, patience);
  if (!socket) return "";
  if (send(socket->get(), probe.data(), probe.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return "";
  pollfd polled[] = {{socket->get(), POLLIN, 0}, {interrupt, POLLIN, 0}};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  if (poll(polled, 2, static_cast<int>(ms)) <= 0) return "";
  char buffer[512];
  const ssize_t n = recv(socket->get(), buffer, sizeof buffer, MSG_DONTWAIT);
  return {buffer, n > 0 ? static_cast<std::size_t>(n) : 0};
}

}  // namespace c10dd::client
