// SPDX-License-Identifier: Apache-2.0
// Resolves host names. A look-up runs in a thread of its own, because the system's look-up blocks
// for as long as the name servers are silent. The newest addresses that were found are kept for the
// life of the process, and are used while the name cannot be resolved.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::client {

/// A socket address with its size.
class SocketAddress {
 public:
  SocketAddress() = default;
  /// `size` is at most sizeof(sockaddr_storage).
  SocketAddress(const sockaddr* address, socklen_t size);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  /// Returns the numeric address without the port; empty if it is not an IP address.
  std::string host() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// A server's host (a name or a numeric address) and port.
struct NamedServer {
  std::string host;
  std::string port;
  auto operator<=>(const NamedServer&) const = default;
};

/// How long the look-up of a name may take if addresses of it are kept.
inline constexpr Duration kLookUpPatience = std::chrono::milliseconds(500);

/// Returns the addresses of a server for stream sockets. Blocks until the look-up has ended, but
/// for at most `patience`, and stops when `interrupt` becomes readable. If addresses are kept,
/// blocks for at most kLookUpPatience, and returns those if the look-up fails or is late. A look-up
/// goes on after a call has given up; the next call gets its result. Fails with Code::unavailable
/// if no address is known. Thread-safe.
Result<std::vector<SocketAddress>> resolve(const NamedServer& server, int interrupt,
                                           Duration patience);

}  // namespace c10dd::client
