// SPDX-License-Identifier: Apache-2.0
// Exit messages: before a rank closes its connections, it sends the reason to every peer. This lets
// a peer distinguish the rank that caused a failure from the ranks that failed because of that
// rank. If a connection ends without an exit message, the rank at its other end has died.
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
    /// The exit message of the peer, or nullopt if the peer has died. Code::closed means that the
    /// peer has closed its group without a failure. Any other code means that the peer's group has
    /// failed, and `missing` has the ranks that the peer has lost.
    std::optional<Failure> message;
  };

  explicit ExitMessages(::gloo::transport::Context& context);

  /// Starts to receive from all peers. Called once, after the connections to all peers are open.
  void listen();

  /// Returns the peers whose connections have ended. Thread-safe. Does not block.
  std::vector<Ended> ended();

  /// Sends `reason` to all peers as the exit message. Blocks for at most about 50 ms. A peer that
  /// does not read the message in that time may not get it. The caller must close the connections
  /// afterwards.
  void send(const Failure& reason);

 private:
  // A message contains the code, the number of lost ranks, these ranks, and a text that ends at a
  // zero byte. The size is fixed, so that the receive can be posted long before a message is sent.
  using Message = std::array<char, 512>;

  struct Peer {
    Message message{};
    std::unique_ptr<::gloo::transport::UnboundBuffer> arrival;  // receives `message`
    std::unique_ptr<::gloo::transport::UnboundBuffer> open;     // null: own rank, or ended
    std::optional<Ended> ended;
  };

  void listen_to(int rank, Peer& peer);
  static Message encode(const Failure& reason);
  static Failure decode(Message& message);
  static std::optional<Failure> received_message(Peer& peer);

  ::gloo::transport::Context& context_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
};

}  // namespace c10dd::collectives
