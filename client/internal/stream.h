// SPDX-License-Identifier: Apache-2.0
// A TCP connection whose calls block up to a deadline.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/internal/socket.h"
#include "client/internal/tls.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::client {

/// Used by one thread at a time. After a failure, which has the code unavailable, the connection
/// cannot be used.
class Stream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Connects as dial() does, up to `end`, but for at most 5 s per address.
  static Result<Stream> connect(const std::string& address, Time end);
  /// As above, encrypted. The failure of a handshake has the code permission_denied if the peer is
  /// not trusted.
  static Result<Stream> connect(const std::string& address, Time end, Tls::Begun with);

  /// Sends all bytes.
  Result<void> send(std::string_view bytes, Time end);
  /// Appends at least one byte to `in`. Returns false if no byte came until `end`, and always after
  /// `end`, so that a server that never stops sending ends no loop late. Fails if the server has
  /// closed the connection.
  Result<bool> receive(Bytes& in, Time end);

  /// Returns whether the connection is open and no byte waits to be received.
  bool is_quiet() const;

 private:
  explicit Stream(Descriptor socket) : socket_(std::move(socket)) {}
  Result<void> send_raw(std::string_view bytes, Time end);
  Result<void> flush(Time end);
  Result<bool> receive_raw(Bytes& in, Time end);
  bool await(short events, Time end) const;

  Descriptor socket_;
  std::unique_ptr<TlsChannel> channel_;  // null: not encrypted
};

}  // namespace c10dd::client
