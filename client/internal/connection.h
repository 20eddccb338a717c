// SPDX-License-Identifier: Apache-2.0
// Runs a Core with one thread, one socket and real time. A caller writes its own request if
// the socket has room, and waits for the reply. The thread reads, reconnects and watches deadlines.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/core/announcements.h"
#include "client/core/core.h"
#include "client/internal/periodics.h"
#include "client/internal/tls.h"

namespace c10dd {
class Client;
}

namespace c10dd::client {

/// A handle with which one thread ends a call that another thread waits for. The handle must
/// outlive the call. The connection's mutex guards the fields of the handle.
class Recall {
  friend class Connection;
  std::optional<Failure> reason_;
  std::uint64_t call_ = 0;
};

/// The session of a client, over all its connections. Thread-safe. In a forked process wait_open()
/// and call() throw Forked; the other methods do nothing.
class Connection {
 public:
  using Periodic = client::Periodic;

  /// A function that the connection calls on its thread to make an announcement. `daemon` is
  /// Core::address(). `absence` is a text that says why there is no session. The function must not
  /// call the connection.
  using Announce = std::function<void(const Announcement&, const std::string& daemon,
                                      const std::string& absence)>;

  /// Sends the requests of `periodics` by itself. Encrypts by `tls`, unless it is null.
  explicit Connection(CoreOptions options, std::vector<Periodic> periodics = {},
                      Announce announce = {}, std::shared_ptr<Tls> tls = nullptr);
  ~Connection();

  /// Blocks up to `patience` until there is a session. Fails with timed_out and the reason, or with
  /// the daemon's failure if the daemon refuses the session.
  Result<void> wait_open(Duration patience);

  /// Sends a request and blocks until its reply or its failure. If the request has no time-out of
  /// its own, `limit` is the time-out, unless the thread has another (CallerScope). `recall` lets
  /// another thread end the call.
  Reply call(Request request, Duration limit, Recall* recall = nullptr);

  /// Sends a request and ignores its reply. Does not block.
  void post(Request request, Duration limit);

  /// Core::send_heartbeats.
  void send_heartbeats(Duration limit);

  /// Core::heartbeat_limit.
  Duration heartbeat_limit() const;

  /// Returns the time since Core::last_confirmed().
  Duration since_confirmed() const;

  /// Makes the pending call that uses `recall`, and all later such calls, fail with `reason`.
  void recall(Recall& recall, Failure reason);

  /// Fails pending and later calls with `closed`. If there was ever a session, sends `last_calls`
  /// and waits up to `patience` for each reply. Then ends the thread and waits for its end.
  void close(std::vector<Request> last_calls, Duration patience);

  bool open() const;
  /// Core::address(). Empty in a forked process.
  std::string address() const;
  CoreStats stats() const;

 private:
  struct State;

  std::unique_ptr<State> state_;
};

/// Returns the connection of a client, for the layers above the client.
std::shared_ptr<Connection> connection_of(const Client& client);

}  // namespace c10dd::client
