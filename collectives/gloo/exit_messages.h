// SPDX-License-Identifier: Apache-2.0
// Exit messages: before a rank closes its connections, it sends the reason to every peer. So a peer
// can distinguish the rank that has caused a failure from the ranks that failed because of it. If a
// connection ends without an exit message, the rank has died.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "protocol/error.h"

namespace c10dd::collectives {

/// Sends and receives the exit messages of one rank.
class ExitMessages {
 public:
  /// A peer whose connection has ended.
  struct Ended {
    Rank rank = 0;
    /// Its exit message; empty: it has died. Code closed: it has closed its group in good order.
    /// Any other code: its group has failed, and `missing` has the ranks that it has lost.
    std::optional<Failure> message;
  };

  explicit ExitMessages(::gloo::transport::Context& context);

  /// Starts to receive from all peers. Called once, when all pairs are connected.
  void listen();

  /// Returns the peers whose connections have ended. Thread-safe. Does not block.
  std::vector<Ended> ended();

  /// Sends the message to all peers, as far as that succeeds within about 50 ms. The caller must
  /// close the connections afterwards.
  void send(const Failure& reason);

 private:
  // Code, number of lost ranks, these ranks, text up to a zero byte. The size is fixed, so that the
  // receive can be posted long before a message is sent.
  using Message = std::array<char, 512>;

  struct Peer {
    Message message{};
    std::unique_ptr<::gloo::transport::UnboundBuffer> arrival;  // receives `message`
    std::unique_ptr<::gloo::transport::UnboundBuffer> open;     // null: own rank, or ended
    std::optional<Ended> ended;
  };

  static Message encode(const Failure& reason);
  static Failure decode(Message& message);
  static std::optional<Failure> received_message(Peer& peer);

  ::gloo::transport::Context& context_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
};

}  // namespace c10dd::collectives
