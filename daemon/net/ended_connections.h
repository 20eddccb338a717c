// SPDX-License-Identifier: Apache-2.0
// Finds connections that the other side has ended, whichever loop serves them and whether or not
// that loop has noticed.
#pragma once

#include <cstdint>
#include <vector>

namespace c10dd::daemon {

/// Returns whether the other side has ended its direction of a connection, even if bytes that it
/// has sent before are not read yet. Returns false for -1.
bool has_ended(int socket);

/// One thread must use it.
class EndedConnections {
 public:
  EndedConnections();
  ~EndedConnections();
  EndedConnections(const EndedConnections&) = delete;
  EndedConnections& operator=(const EndedConnections&) = delete;

  /// Watches a socket until it is closed. `connection` is the number that take() returns.
  void watch(int socket, std::uint64_t connection);

  /// Returns the connections whose end the kernel knows, each once. Does not block. Costs nothing
  /// for connections that have not ended.
  std::vector<std::uint64_t> take();

 private:
  int epoll_;
};

}  // namespace c10dd::daemon
