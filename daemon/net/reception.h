// SPDX-License-Identifier: Apache-2.0
// Takes a new connection as far as its protocol: reads its first bytes, within a deadline, and has
// it served, or tells it why not. On the loop that accepts connections.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string_view>

#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"
#include "protocol/error.h"

namespace c10dd::daemon {

class Reception {
 public:
  Reception(const SessionContext& context, Protocols protocols);

  /// Receives a connection, on its loop. One that was not admitted is told so in the words of its
  /// protocol.
  void receive(std::shared_ptr<Stream> stream, Result<void> admitted);

  /// Counts one that nothing can be told to, for too many are being told.
  void drop_unheard();

 private:
  asio::awaitable<void> recognise(std::shared_ptr<Stream> stream, Result<void> admitted);
  bool wants_more(std::string_view head, bool admitted) const;
  asio::awaitable<void> refuse(std::shared_ptr<Stream> stream, const WireProtocol* words,
                               Failure reason);

  const SessionContext& context_;
  const Protocols protocols_;
};

}  // namespace c10dd::daemon
