// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "client/internal/local_address.h"
#include "client/internal/socket.h"
#include "protocol/address.h"
#include "protocol/limits.h"
#include "protocol/random.h"

namespace c10dd::run {
namespace {

constexpr std::uint32_t kFirstPort = 10'000;  // below are those of well-known services
constexpr std::uint32_t kLastPort = 65'535;
constexpr int kPortTries = 200;

/// Returns the first and the last port that the kernel gives to connections.
std::pair<std::uint32_t, std::uint32_t> local_port_range() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  if (file >> low >> high) return {low, high};
  return {32'768, 60'999};  // the default of Linux
}

/// Binds a socket to a port of all addresses, or to any port if it is 0, and closes it. Returns the
/// port, or nothing if it is taken.
std::optional<std::uint16_t> bound(std::uint16_t port) {
  const client::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  auto* address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = sizeof any;
  if (!socket || bind(socket.get(), address, size) != 0) return std::nullopt;
  if (getsockname(socket.get(), address, &size) != 0) return std::nullopt;
  return ntohs(any.sin_port);
}

}  // namespace

std::string host_name() {
  char name[limits::kNameBytes + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string address_towards(const client::Url& url, bool alone) {
  for (const client::HostPort& daemon : url.daemons) {
    std::string address = client::local_address_towards(daemon.host, std::to_string(daemon.port));
    if (!address.empty() && (alone || !is_loopback(address))) return address;
  }
  if (alone) return "127.0.0.1";
  const std::string own = client::own_address();
  return own.empty() ? host_name() : own;
}

std::string free_port() {
  std::mt19937_64 random(random_number());
  const auto [low, high] = local_port_range();
  for (int tries = 0; tries < kPortTries; ++tries) {
    const std::uint32_t port = std::uniform_int_distribution(kFirstPort, kLastPort)(random);
    if (port >= low && port <= high) continue;
    if (bound(static_cast<std::uint16_t>(port))) return std::to_string(port);
  }
  const auto port = bound(0);
  if (!port) throw std::system_error(errno, std::generic_category(), "bind");
  return std::to_string(*port);
}

}  // namespace c10dd::run
