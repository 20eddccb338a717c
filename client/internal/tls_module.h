// SPDX-License-Identifier: Apache-2.0
// The interface between the SDK and its module for TLS, libc10dd_tls.so. The SDK itself links no
// OpenSSL; it opens the module when a client has credentials.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "client/internal/credentials.h"
#include "client/internal/module_loader.h"
#include "protocol/error.h"

namespace c10dd::client {

inline constexpr std::uint32_t kTlsAbi = 1;

/// The client's end of a TLS connection, without its socket: tls::Channel (protocol/tls/channel.h)
/// has the contracts.
class TlsChannel {
 public:
  virtual ~TlsChannel() = default;
  virtual void receive(std::string_view bytes) = 0;
  virtual void receive_end() = 0;
  virtual Result<bool> shake_hands() = 0;
  virtual Result<std::size_t> read(std::span<char> into) = 0;
  virtual Result<std::size_t> write(std::string_view plain) = 0;
  virtual void close() = 0;
  virtual std::string_view outgoing() const = 0;
  virtual void sent(std::size_t count) = 0;
  virtual bool has_ended() const = 0;
};

/// What the connections of a client have in common: tls::Context. Thread-safe.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  /// `host`: of the daemon, as the URL names it.
  virtual std::unique_ptr<TlsChannel> connect(const std::string& host) = 0;
};

/// What the module exports, as c10dd_tls_module().
struct TlsModule {
  ModuleHead head{.abi = kTlsAbi, .setup_bytes = sizeof(CredentialTexts)};
  /// Fails with invalid_argument if a text cannot be read, or with unauthenticated if the token
  /// cannot.
  Result<std::shared_ptr<TlsContext>> (*open)(const CredentialTexts&) = nullptr;
};

}  // namespace c10dd::client
