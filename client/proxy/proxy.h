// SPDX-License-Identifier: Apache-2.0
// The node proxy: a port on 127.0.0.1 to which the clients of PyTorch's TCPStore on this machine
// connect, in place of a store that dies. All of them are in one run of a job, and each has a
// session of its own with the daemon, over a connection of its own. When the daemon is away, they
// wait. TCPStore has no credentials, and those of the proxy give its clients their rights: so it
// serves the user that its process has, and no other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/credentials.h"
#include "client/proxy/clients_left.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::proxy {

struct ProxySettings {
  std::vector<std::string> daemons;  ///< host:port of each; at least one
  std::string job;
  std::string run;
  std::string host;  ///< name of this machine, for the daemon's texts
  tcpstore::LegacyClients legacy = tcpstore::LegacyClients::detect;
  /// Gets one line for people about a client that was closed or refused and why, or an absence of
  /// the daemon.
  /// Called on the thread of the proxy; may be empty.
  std::function<void(const std::string& line)> say = {};
  Credentials credentials = {};  ///< ClientOptions::credentials
  bool says_absences = true;     ///< false: the process has a client of its own that says them
};

/// What the proxy has done and does. Each number but `clients`, `waits` and `unanswered` only
/// grows.
struct ProxyCounts {
  std::uint64_t clients = 0;     ///< connected now
  std::uint64_t accepted = 0;    ///< since the start
  std::uint64_t refused = 0;     ///< of other users, or because limits::kProxyClients were there
  std::uint64_t closed = 0;      ///< by the proxy: could not go on, or silent while others waited
  std::uint64_t waits = 0;       ///< blocked now
  std::uint64_t unanswered = 0;  ///< requests without a reply now, with the waits
  std::uint64_t reissued = 0;    ///< requests that were sent again, after a connection was lost
};

class Proxy {
 public:
  /// Listens on a free port and starts the thread. Throws Error with Code::unavailable if the
  /// system gives no port or no thread, or does not tell the users of connections.
  explicit Proxy(ProxySettings settings);
  /// Closes all connections, says goodbye for each, for at most a second, and ends the thread. In a
  /// forked child does nothing.
  ~Proxy();
  Proxy(const Proxy&) = delete;

  std::uint16_t port() const;
  /// Thread-safe.
  ProxyCounts counts() const;
  /// Says when the last client has gone and its session has ended, so that nobody needs the proxy.
  /// Thread-safe. The destructor tells it nothing.
  std::shared_ptr<ClientsLeft> clients_left() const;

 private:
  class Shell;
  std::unique_ptr<Shell> shell_;
};

}  // namespace c10dd::proxy
