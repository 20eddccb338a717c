// SPDX-License-Identifier: Apache-2.0
// A blocking TCP connection, with a limit on how long each call blocks. Sending to a closed
// connection returns an error and raises no signal.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::store {

/// Carries the bytes of a connection. Owned by one thread at a time.
class RedisTransport {
 public:
  virtual ~RedisTransport() = default;

  /// Sends all bytes. Fails with unavailable if the connection is lost, or takes nothing for its
  /// patience.
  virtual Result<void> send(std::string_view bytes) = 0;

  /// Waits for bytes, and returns how many it has stored in `into`, at least one. Fails with
  /// unavailable if the connection is lost or closed, or nothing comes within its patience.
  virtual Result<std::size_t> receive(std::span<char> into) = 0;
};

class RedisSocket final : public RedisTransport {
 public:
  /// Connects to the first address of `host` that takes the connection. Fails with unavailable if
  /// none does within `patience`, which counts for all of them together; looking up a name may take
  /// longer.
  static Result<RedisSocket> connect(const std::string& host, std::uint16_t port,
                                     Duration patience);

  RedisSocket(RedisSocket&& other) noexcept;
  RedisSocket& operator=(RedisSocket&&) = delete;
  ~RedisSocket() override;

  Result<void> send(std::string_view bytes) override;
  Result<std::size_t> receive(std::span<char> into) override;

 private:
  RedisSocket(int descriptor, Duration patience) : descriptor_(descriptor), patience_(patience) {}

  Result<void> wait(short events) const;

  int descriptor_;
  Duration patience_;
};

/// Connects as RedisSocket does, to speak TLS with a server whose certificate must be for `host`,
/// by a CA of `ca_file` or, if that is empty, of the system. Fails with invalid_argument, before it
/// connects, if the file cannot be read; with unavailable if there is no connection or it is lost;
/// otherwise with permission_denied.
Result<std::unique_ptr<RedisTransport>> connect_encrypted(const std::string& host,
                                                          std::uint16_t port, Duration patience,
                                                          const std::string& ca_file);

}  // namespace c10dd::store
