// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/address.h"

#include <unistd.h>

#include "client/internal/local_address.h"
#include "protocol/address.h"
#include "protocol/limits.h"

namespace c10dd::run {

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

}  // namespace c10dd::run
