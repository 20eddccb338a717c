// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <utility>

#include "client/internal/local_address.h"
#include "client/launcher/options.h"
#include "protocol/address.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/random.h"

namespace c10dd::run {
namespace {

constexpr std::uint32_t kLowest = 1'024;      // below are those of the system
constexpr std::uint32_t kPreferred = 10'000;  // below are more of well-known services
constexpr std::uint32_t kHighest = 65'535;
constexpr std::pair<std::uint32_t, std::uint32_t> kRangeOfLinux{32'768, 60'999};
constexpr const char* kRangeFile = "/proc/sys/net/ipv4/ip_local_port_range";
constexpr const char* kReservedFile = "/proc/sys/net/ipv4/ip_local_reserved_ports";

using Ports = std::bitset<kHighest + 1>;

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Takes the number at the beginning of the text, after blanks, commas and hyphens.
std::optional<std::uint32_t> take_port(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n,-"), text.size()));
  std::uint32_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || number > kHighest) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

void set_all(Ports& ports, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t port = first; port <= last; ++port) ports.set(port);
}

/// A socket that is bound to a port of all addresses, or to any port if it is 0.
struct BoundSocket {
  std::uint16_t port;
  client::Descriptor socket;
};

/// `shared`: a server with SO_REUSEADDR may listen on the port while the socket is open.
std::optional<BoundSocket> bind_to(int family, std::uint16_t port, bool shared) {
  client::Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = shared ? 1 : 0;
  const int off = 0;
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  auto* const four = reinterpret_cast<sockaddr_in*>(&any);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&any);
  (family == AF_INET6 ? six->sin6_port : four->sin_port) = htons(port);
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = family == AF_INET6 ? sizeof *six : sizeof *four;
  if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return std::nullopt;
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.get(), address, size) != 0 || getsockname(socket.get(), address, &size) != 0)
    return std::nullopt;
  const in_port_t found = family == AF_INET6 ? six->sin6_port : four->sin_port;
  return BoundSocket{ntohs(found), std::move(socket)};
}

/// The addresses of IPv6 with those of IPv4, if the machine has both.
int family_of_all_addresses() { return bind_to(AF_INET6, 0, true) ? AF_INET6 : AF_INET; }

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

std::vector<std::uint16_t> ports_to_promise(std::string_view range, std::string_view reserved) {
  Ports others;
  const auto low = take_port(range);
  const auto high = take_port(range);
  set_all(others, low && high ? *low : kRangeOfLinux.first,
          low && high ? *high : kRangeOfLinux.second);
  while (const auto first = take_port(reserved)) {
    const bool more = reserved.starts_with('-');
    const auto last = more ? take_port(reserved) : first;
    set_all(others, *first, last.value_or(*first));
  }
  std::vector<std::uint16_t> found;
  for (const auto& [from, to] :
       {std::pair{kPreferred, kHighest}, std::pair{kLowest, kPreferred - 1}}) {
    for (std::uint32_t port = from; port <= to; ++port) {
      if (!others.test(port)) found.push_back(static_cast<std::uint16_t>(port));
    }
  }
  return found;
}

PromisedPort::PromisedPort() {
  const std::string range = text_of(kRangeFile);
  std::vector<std::uint16_t> ports = ports_to_promise(range, text_of(kReservedFile));
  const auto lower = std::ranges::find_if(ports, [](auto port) { return port < kPreferred; });
  std::mt19937_64 random(random_number());
  std::shuffle(ports.begin(), lower, random);  // two launches take different ones
  std::shuffle(lower, ports.end(), random);
  const int family = family_of_all_addresses();
  for (const std::uint16_t port : ports) {
    if (!bind_to(family, port, false)) continue;
    number_ = port;
    return;
  }
  std::optional<BoundSocket> bound = bind_to(family, 0, true);
  if (!bound) {
    const std::string why = client::error_text(errno);
    throw Fatal(
        exit_code::kTryAgain,
        format("no port is free for rank 0: {}; {} are for connections (ip_local_port_range), "
               "all others are used or reserved (ip_local_reserved_ports); close "
               "connections, or make the range smaller",
               why, range.substr(0, range.find('\n'))));
  }
  number_ = bound->port;
  holder_ = std::move(bound->socket);
}

}  // namespace c10dd::run
