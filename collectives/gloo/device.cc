// SPDX-License-Identifier: Apache-2.0
// Resolves the name and tries to bind the address before Gloo does both again. Without this check,
// Gloo reads an uninitialised list if the name does not resolve, and leaks memory if no address of
// the name can be bound.
#include "collectives/gloo/device.h"

#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/internal/per_process.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::collectives {
namespace {

constexpr char kHint[] =
    "; set the option interface or hostname, or the variable C10DD_GLOO_INTERFACE or "
    "GLOO_SOCKET_IFNAME";

/// The interfaces that a variable names, with commas between, and the name of the variable.
struct Interfaces {
  std::vector<std::string> names;
  std::string from;
};

Interfaces interfaces_of_environment() {
  Interfaces found;
  for (const char* name : {"C10DD_GLOO_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    found.from = std::string(name) + "=" + text + ": ";
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
      if (!word.empty()) found.names.push_back(word);
    }
    break;
  }
  return found;
}

/// Returns true if this machine can bind a socket to the address. Otherwise returns false and sets
/// errno.
bool can_bind(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = bind(fd, address, size) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return bound;
}

/// Returns the first address that is not IPv4 link-local; else the first; else `otherwise`.
std::string choose(const std::vector<std::string>& bound, const std::string& otherwise) {
  const auto wide =
      std::ranges::find_if_not(bound, [](const auto& one) { return is_ipv4_link_local(one); });
  if (wide != bound.end()) return *wide;
  return bound.empty() ? otherwise : bound.front();
}

/// Returns the first IP address of the interface that this machine can bind, as text; an IPv4
/// link-local one only if there is no other. A new IPv6 address cannot be bound for a moment. If
/// none can be bound, returns the first; empty if the interface has none.
std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string first;
  std::vector<std::string> bound;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || name != one->ifa_name) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(one->ifa_addr, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    if (first.empty()) first = text;
    if (can_bind(one->ifa_addr, length)) bound.emplace_back(text);
  }
  freeifaddrs(all);
  return choose(bound, first);
}

/// Resolves `name`. Returns, as text, the first address to which this machine can bind a socket; an
/// IPv4 link-local one only if there is no other.
Result<std::string> own_address(const std::string& name) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return failure(Code::invalid_argument, "gloo: local address \"{}\" does not resolve: {}{}",
                   name, gai_strerror(error), kHint);
  }
  std::vector<std::string> bound;
  int refused = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (!can_bind(one->ai_addr, one->ai_addrlen)) {
      refused = errno;
    } else if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), nullptr, 0,
                           NI_NUMERICHOST) == 0) {
      bound.emplace_back(text);
    }
  }
  freeaddrinfo(found);
  if (!bound.empty()) return choose(bound, "");
  const bool link_local = is_link_local(name) && name.find('%') == std::string::npos;
  return failure(Code::invalid_argument,
                 "gloo: address \"{}\" cannot be bound on this machine: {}{}", name,
                 link_local ? "it is a link-local address, which needs the name of its interface, "
                              "such as " +
                                  name + "%eth0"
                            : std::strerror(refused),
                 kHint);
}

/// The devices of this process. Each has a thread, so groups share them: there are at most as many
/// devices per address as cores. Thread-safe.
class Devices {
 public:
  using Device = ::gloo::transport::Device;

  /// Returns the devices of this process; in a forked child, those of the child.
  static Devices& instance() { return client::of_this_process<Devices>(); }

  /// Returns the device with the fewest users, or a new one if there may be more. May throw.
  std::shared_ptr<Device> get(const std::string& address) {
    const std::lock_guard lock(mutex_);
    std::vector<std::weak_ptr<Device>>& open = open_[address];
    std::erase_if(open, [](const auto& device) { return device.expired(); });
    if (open.size() < std::max(std::thread::hardware_concurrency(), 1u)) {
      auto device = ::gloo::transport::tcp::CreateDevice(address.c_str());
      open.push_back(device);
      return device;
    }
    const auto least = std::min_element(open.begin(), open.end(), [](const auto& a, const auto& b) {
      return a.use_count() < b.use_count();
    });
    if (auto device = least->lock()) return device;
    return ::gloo::transport::tcp::CreateDevice(address.c_str());
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<Device>>> open_;  // by address
};

}  // namespace

Result<std::shared_ptr<::gloo::transport::Device>> open_device(const BackendSetup& setup) {
  std::string name = setup.options.hostname;
  Interfaces interfaces;
  if (!setup.options.interface.empty()) interfaces.names = {setup.options.interface};
  if (interfaces.names.empty() && name.empty()) interfaces = interfaces_of_environment();
  try {
    if (!interfaces.names.empty()) {
      name.clear();
      for (const std::string& interface : interfaces.names) {
        if (name.empty()) name = address_of_interface(interface);
      }
      if (name.empty()) {
        return failure(Code::invalid_argument,
                       "gloo: {}interface \"{}\" has no IP address on this machine{}",
                       printable(interfaces.from, limits::kNameShown),
                       printable(interfaces.names.front(), limits::kNameShown), kHint);
      }
    } else if (name.empty()) {
      name = setup.bootstrap->local_address();
    }
    auto address = own_address(name);
    if (!address) return address.error();
    return Devices::instance().get(*address);
  } catch (const std::exception& error) {
    return failure(Code::unavailable, "gloo: cannot use the local address \"{}\": {}", name,
                   error.what());
  }
}

}  // namespace c10dd::collectives
