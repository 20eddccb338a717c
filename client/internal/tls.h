// SPDX-License-Identifier: Apache-2.0
// Tls: makes the encrypted connections of one client from its credentials. Reads their files again
// whenever it is asked, because they are renewed while the client runs.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "client/internal/socket.h"
#include "client/internal/tls_module.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::client {

/// Thread-safe.
class Tls {
 public:
  /// Returns null if no credentials are given. Reads no file.
  static std::shared_ptr<Tls> of(const Credentials& credentials);

  /// A connection that is about to shake hands.
  struct Begun {
    std::string token;  ///< for the hello; may be empty
    std::unique_ptr<TlsChannel> channel;
  };
  /// Reads the credentials. `address`: host:port of the daemon. Fails if they cannot be used; the
  /// text names the file and says what to do.
  Result<Begun> begin(const std::string& address);

  /// Reads the token again.
  Result<std::string> token() const;

 private:
  explicit Tls(Credentials credentials) : credentials_(std::move(credentials)) {}

  Result<std::shared_ptr<TlsContext>> context_of(const CredentialTexts& texts);

  const Credentials credentials_;
  std::mutex mutex_;
  CredentialTexts texts_;                // from which context_ was made
  std::shared_ptr<TlsContext> context_;  // null: none was made yet
};

/// Returns Tls::of() these credentials; of those of the environment if none is given.
std::shared_ptr<Tls> tls_of(const Credentials& credentials);

/// Goes on with a handshake, as far as the socket allows. Returns whether it is done, and all bytes
/// of it sent; otherwise the socket must become writable if outgoing() is not empty, or readable.
/// Fails as shake_hands() does.
Result<bool> shake_hands_now(TlsChannel& channel, int socket);

/// Shakes hands on a connected, non-blocking socket: blocks up to `time`, and stops when
/// `interrupt` becomes readable. Returns false if the time is over: the caller may go on with
/// another call. Fails with permission_denied if the peer is not trusted or does not speak TLS,
/// otherwise with unavailable.
Result<bool> shake_hands(TlsChannel& channel, int socket, int interrupt, Duration time);

/// Returns the failure of a handshake for which the caller has no more time.
Failure handshake_too_slow(Duration patience);

}  // namespace c10dd::client
