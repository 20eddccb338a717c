// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "client/internal/socket.h"
#include "protocol/limits.h"

namespace c10dd::run {
namespace {

/// Returns the local address from which packets to `to` are sent; empty if there is no route. A
/// datagram socket is connected for it, which sends nothing.
std::string local_address(const addrinfo& to) {
  const client::Descriptor socket(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST];
  if (getsockname(socket.get(), address, &size) != 0) return {};
  if (getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

std::string host_name() {
  char name[limits::kNameBytes + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string address_towards(const client::Url& daemon, bool alone) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  std::string address;
  if (getaddrinfo(daemon.host.c_str(), std::to_string(daemon.port).c_str(), &hints, &found) == 0) {
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    for (const addrinfo* to = found; to != nullptr && address.empty(); to = to->ai_next) {
      address = local_address(*to);
    }
  }
  if (address.empty() || (!alone && is_loopback(address))) return alone ? "127.0.0.1" : host_name();
  return address;
}

std::string free_port() {
  const auto fail = [](const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
  };
  const client::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail("socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  auto* address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = sizeof any;
  if (bind(socket.get(), address, size) != 0) fail("bind");
  if (getsockname(socket.get(), address, &size) != 0) fail("getsockname");
  return std::to_string(ntohs(any.sin_port));
}

}  // namespace c10dd::run
