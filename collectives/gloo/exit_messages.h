// SPDX-License-Identifier: Apache-2.0
// Last words: a rank that leaves a group or gives it up tells every peer why before it closes its
// connections, so that a peer can tell the cause from those who merely followed. A connection that
// ends without a word belongs to a rank that died.
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

class ExitMessages {
 public:
  /// `closed`: left in order. Everything else: gave the group up, and why; Failure::missing has the
  /// ranks that it has lost.
  struct Ended {
    Rank rank = 0;
    std::optional<Failure> words;  ///< none: died
  };

  explicit ExitMessages(::gloo::transport::Context& context);

  /// Once, when all pairs are connected.
  void listen();

  /// The peers whose end is known by now. From any thread, does not block.
  std::vector<Ended> ended();

  /// Tells all peers. Best effort, takes at most some 50 ms; the connections must be closed then.
  void tell(const Failure& words);

 private:
  // Code, number of lost ranks, these ranks, text. One fixed size, so that a receive can be posted
  // long before there is anything to receive.
  using Message = std::array<char, 512>;

  struct Peer {
    Message message{};
    std::unique_ptr<::gloo::transport::UnboundBuffer> words;
    std::unique_ptr<::gloo::transport::UnboundBuffer> open;  // null: own rank, or ended
    std::optional<Ended> ended;
  };

  static Message encode(const Failure& words);
  static Failure decode(Message& message);
  static std::optional<Failure> last_words(Peer& peer);

  ::gloo::transport::Context& context_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
};

}  // namespace c10dd::collectives
