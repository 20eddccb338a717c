// SPDX-License-Identifier: Apache-2.0
// The shell around client/core: one thread, one socket, real time. Callers write their own
// requests when the socket has room and wait for their answer; the thread reads, reconnects and
// keeps deadlines. Thread-safe. In a process forked from its owner its calls throw Forked.
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

/// Lets one thread call back what another one waits for; it must outlive the call. Its state
/// belongs to the connection.
class Recall {
  friend class Connection;
  std::optional<Failure> reason_;
  std::uint64_t call_ = 0;
};

class Connection {
 public:
  /// Called once a second on the connection's thread while there is a session; a request that it
  /// returns is sent and nobody waits for it. `again`: the daemon may have lost the earlier ones.
  /// It must not call the connection.
  using Periodic = std::function<std::optional<Request>(bool again)>;

  /// Called on the connection's thread when there is something to announce; `absence`: why there is
  /// no session, for people. It must not call the connection.
  using Announce = std::function<void(const Announcement&, const std::string& absence)>;

  Connection(CoreOptions options, Periodic each_second, Announce announce = {});
  ~Connection();

  /// Waits for the first session. timed_out with the reason, or the daemon's refusal.
  Result<void> wait_open(Duration patience);

  /// Blocks until the answer; `limit` holds for requests without a time-out of their own.
  Reply call(Request request, Duration limit, Recall* recall = nullptr);

  /// Sends a request whose answer nobody waits for.
  void post(Request request, Duration limit);

  /// Core::send_heartbeats.
  void send_heartbeats(Duration limit);

  /// Core::heartbeat_limit.
  Duration heartbeat_limit() const;

  /// How long ago Core::last_confirmed() was.
  Duration unvouched() const;

  /// The call that carries it now, and all later ones, end with this failure.
  void recall(Recall& recall, Failure reason);

  /// Ends all calls with `closed`, later ones too; if there ever was a session, makes the last
  /// calls, each within `patience`; then ends the thread.
  void close(std::vector<Request> last_calls, Duration patience);

  bool open() const;
  std::string address() const;
  CoreStats stats() const;

 private:
  struct State;

  std::unique_ptr<State> state_;
};

/// What the client talks through, for the layers above it.
std::shared_ptr<Connection> connection_of(const Client& client);

}  // namespace c10dd::client
