// SPDX-License-Identifier: Apache-2.0
#include "client/internal/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "client/internal/resolver.h"
#include "client/internal/socket.h"
#include "protocol/address.h"

namespace c10dd::client {
namespace {

constexpr Duration kPatience = std::chrono::seconds(5);  // for the look-up of a new name

/// Returns the local address from which packets to `to` are sent; empty if there is no route.
std::string source_address(const SocketAddress& to) {
  // Connecting a datagram socket selects the route and sends nothing.
  const Descriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), to.get(), to.size()) != 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (getsockname(socket.get(), address, &size) != 0) return {};
  return SocketAddress(address, size).host();
}

/// Adds the addresses of the interfaces that are up.
void add_interfaces(int family, std::vector<std::string>& to) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
    if ((one->ifa_flags & IFF_UP) == 0) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    to.push_back(SocketAddress(one->ifa_addr, size).host());
  }
  freeifaddrs(all);
}

}  // namespace

std::string own_address() {
  // Addresses of documentation (RFC 5737 and 3849): no machine has them, so they take the default
  // route.
  std::vector<std::string> all = {local_address_towards("192.0.2.1", "9"),
                                  local_address_towards("2001:db8::1", "9")};
  add_interfaces(AF_INET, all);
  add_interfaces(AF_INET6, all);
  return widest_address(all);
}

std::string local_address_towards(const std::string& host, const std::string& port) {
  const auto found = resolve({host, port}, -1, kPatience);
  std::string address;
  for (std::size_t i = 0; found && address.empty() && i < found->size(); ++i) {
    address = source_address((*found)[i]);
  }
  return address;
}

}  // namespace c10dd::client
