// SPDX-License-Identifier: Apache-2.0
// The shell around client/core: one thread, one socket, real time. Callers write their own requests
// if the socket has room, and wait for the reply. The thread reads, reconnects and watches
// deadlines.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "client/core/announcements.h"
#include "client/core/core.h"

namespace c10dd {
class Client;
}

namespace c10dd::client {

/// A handle with which one thread ends a call that another thread waits for. It must outlive the
/// call. Its state is guarded by the connection.
class Recall {
  friend class Connection;
  std::optional<Failure> reason_;
  std::uint64_t call_ = 0;
};

/// The session of a client, over all its connections. Thread-safe. In a forked process wait_open()
/// and call() throw Forked; the other methods do nothing.
class Connection {
 public:
  /// Called on the connection's thread, once a second while there is a session. The request that it
  /// returns is sent; nobody waits for the reply. `again`: the session or connection is new, and
  /// the daemon may have lost earlier requests. Must not call the connection.
  using Periodic = std::function<std::optional<Request>(bool again)>;

  /// Called on the connection's thread when there is something to announce. `absence` is why there
  /// is no session, for people. Must not call the connection.
  using Announce = std::function<void(const Announcement&, const std::string& absence)>;

  Connection(CoreOptions options, Periodic each_second, Announce announce = {});
  ~Connection();

  /// Blocks up to `patience` until there is a session. Fails with timed_out and the reason, or with
  /// the failure that the daemon refused the session with.
  Result<void> wait_open(Duration patience);

  /// Sends a request and blocks until its reply or its failure. `limit` is the time-out of requests
  /// that have none of their own. `recall` lets another thread end the call.
  Reply call(Request request, Duration limit, Recall* recall = nullptr);

  /// Sends a request and ignores its reply. Does not block.
  void post(Request request, Duration limit);

  /// Core::send_heartbeats.
  void send_heartbeats(Duration limit);

  /// Core::heartbeat_limit.
  Duration heartbeat_limit() const;

  /// Returns the time since Core::last_confirmed().
  Duration since_confirmed() const;

  /// Ends the call that uses `recall` now, and all later calls that use it, with this failure.
  void recall(Recall& recall, Failure reason);

  /// Ends all pending and later calls with `closed`. Then makes the last calls if there was ever a
  /// session, each within `patience`, and ends the thread. Blocks until that is done.
  void close(std::vector<Request> last_calls, Duration patience);

  bool open() const;
  std::string address() const;
  CoreStats stats() const;

 private:
  struct State;

  std::unique_ptr<State> state_;
};

/// Returns the connection of a client, for the layers above the client.
std::shared_ptr<Connection> connection_of(const Client& client);

}  // namespace c10dd::client
