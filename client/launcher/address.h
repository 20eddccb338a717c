// SPDX-License-Identifier: Apache-2.0
// Finds the addresses at which other machines can reach this machine, and ports for rank 0: those
// that c10drun names to its workers before rank 0 listens on them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/socket.h"
#include "client/internal/url.h"

namespace c10dd::run {

/// Returns the name of this machine, "localhost" if it is unknown.
std::string host_name();

/// Returns an address at which the other nodes of the job can reach this machine: the local address
/// from which packets to a daemon of the URL are sent. If the local address is unknown, or is a
/// loopback address, which other nodes cannot use, returns client::own_address() or, if that is
/// empty, the host name. If `alone` is true, the job has no other nodes: then returns even a
/// loopback address, and returns 127.0.0.1 if the local address is unknown.
std::string address_towards(const client::Url& url, bool alone);

/// Returns the ports that the kernel never gives to a connection and that the machine keeps for no
/// other service, from 1024 on. Those from 10000 on come first, because below are more ports of
/// well-known services. The texts are those of the files ip_local_port_range and
/// ip_local_reserved_ports of the kernel; an empty range means that of Linux.
std::vector<std::uint16_t> ports_to_promise(std::string_view range, std::string_view reserved);

/// A port that is free on all addresses of this machine, and stays free until a server listens on
/// it. Takes one of ports_to_promise(), which needs nothing more. If none of these is free, takes
/// one that the kernel may give to a connection, and holds it until this object is destroyed: a
/// server that sets SO_REUSEADDR, as PyTorch's does, listens on it meanwhile.
class PromisedPort {
 public:
  /// Throws Fatal if no port is free.
  PromisedPort();

  std::uint16_t number() const { return number_; }
  bool is_held() const { return static_cast<bool>(holder_); }

 private:
  std::uint16_t number_ = 0;
  client::Descriptor holder_;
};

}  // namespace c10dd::run
