// SPDX-License-Identifier: Apache-2.0
// A blocking TCP connection, with a limit on how long each call blocks. Sending to a closed
// connection returns an error and raises no signal.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::store {

/// Owned by one thread at a time.
class RedisSocket {
 public:
  /// Connects to the first address of `host` that takes the connection. Fails with unavailable if
  /// none does within `patience`, which counts for all of them together; looking up a name may take
  /// longer.
  static Result<RedisSocket> connect(const std::string& host, std::uint16_t port,
                                     Duration patience);

  RedisSocket(RedisSocket&& other) noexcept;
  RedisSocket& operator=(RedisSocket&&) = delete;
  ~RedisSocket();

  /// Sends all bytes. Fails with unavailable if the connection is lost, or takes nothing for
  /// `patience`.
  Result<void> send(std::string_view bytes);

  /// Waits for bytes, and returns how many it has stored in `into`, at least one. Fails with
  /// unavailable if the connection is lost or closed, or nothing comes within `patience`.
  Result<std::size_t> receive(std::span<char> into);

 private:
  RedisSocket(int descriptor, Duration patience) : descriptor_(descriptor), patience_(patience) {}

  Result<void> wait(short events) const;

  int descriptor_;
  Duration patience_;
};

}  // namespace c10dd::store
