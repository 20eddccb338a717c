// SPDX-License-Identifier: Apache-2.0
// Says who on this machine keeps a TCP port from being listened on, from Linux's /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace c10dd::daemon {

/// A socket with the port.
struct PortSocket {
  bool listens = false;
  std::string peer = {};    ///< of a connection: "10.0.0.2:443"
  std::uint64_t inode = 0;  ///< names the socket under /proc/PID/fd
};

/// Finds the socket that has this local port in a text of the form of /proc/net/tcp or
/// /proc/net/tcp6: one that listens, else one of a connection that is not over.
std::optional<PortSocket> port_socket_in(std::string_view table, std::uint16_t port);

/// Says who uses a port, and what to do; to be read behind "cannot listen on ...: ". Names the
/// process if this user may see it. Reads as many files as all processes have open.
std::string port_trouble(std::uint16_t port);

}  // namespace c10dd::daemon
