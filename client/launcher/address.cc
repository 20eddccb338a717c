// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "client/internal/local_address.h"
#include "client/internal/socket.h"
#include "protocol/limits.h"

namespace c10dd::run {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
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
  return alone ? "127.0.0.1" : host_name();
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
