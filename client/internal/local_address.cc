// SPDX-License-Identifier: Apache-2.0
#include "client/internal/local_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "client/internal/socket.h"

namespace c10dd::client {
namespace {

/// Returns the local address from which packets to `to` are sent; empty if there is no route.
std::string source_address(const addrinfo& to) {
  // Connecting a datagram socket selects the route and sends nothing.
  const Descriptor socket(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST];
  if (getsockname(socket.get(), address, &size) != 0) return {};
  if (getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

}  // namespace

std::string local_address_towards(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::string address;
  for (const addrinfo* to = found; to != nullptr && address.empty(); to = to->ai_next) {
    address = source_address(*to);
  }
  return address;
}

}  // namespace c10dd::client
