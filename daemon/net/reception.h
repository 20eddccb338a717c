// SPDX-License-Identifier: Apache-2.0
// Reads the first bytes of a new connection, within a deadline. Then passes the connection to the
// protocol to which the bytes belong, or refuses the connection and sends the reason.
// All functions are called on the loop that accepts connections.
#pragma once

#include <memory>

#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class Reception {
 public:
  /// `enabled`: the protocols that are served. `context` must outlive all connections. They may
  /// outlive the reception.
  Reception(const SessionContext& context, Protocols protocols, ProtocolSet enabled);

  /// Receives a connection. If `admitted` is a failure, refuses the connection with that failure,
  /// in the encoding of the connection's protocol.
  void receive(std::shared_ptr<Stream> stream, Result<void> admitted);

  /// Ends the oldest connection of this address, or of the address that has most, that has not said
  /// yet what it wants, so that another one can be admitted. Returns false if there is none, or
  /// this daemon does not ask who its clients are.
  bool make_room(const asio::ip::address& from);
  bool make_room();

  /// Counts a connection in the metrics. The caller closes this connection without a reply, because
  /// too many connections are already being refused.
  void drop_unheard();

 private:
  struct Rules;

  /// Connections share the rules, so that they may outlive the reception.
  std::shared_ptr<const Rules> rules_;
};

}  // namespace c10dd::daemon
