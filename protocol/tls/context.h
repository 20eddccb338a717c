// SPDX-License-Identifier: Apache-2.0
// What all TLS connections of one end have in common: its certificate, and whom it trusts. TLS 1.3
// and 1.2, forward secrecy and AEAD only; no tickets, no resumption, no renegotiation.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "protocol/tls/certificates.h"

struct ssl_ctx_st;

namespace c10dd::tls {

/// Keeps the state of OpenSSL until the process has ended: it would free that state when main()
/// returns, while other threads may use it. Call this before any other function of this folder;
/// without effect if the process has used OpenSSL before. Thread-safe.
void keep_until_exit();

/// A certificate, those of the CAs above it, and its key.
struct Identity {
  std::vector<Certificate> chain;  ///< the own one first
  Key key;
};

/// Reads an identity from PEM texts. Fails with invalid_argument if they cannot be read or do not
/// fit together. The names stand for the texts in the failure.
Result<Identity> identity_of(std::string_view chain_pem, std::string_view chain_name,
                             std::string_view key_pem, std::string_view key_name);

/// Whom a client believes that it talks to the right daemon.
struct SystemCas {};  ///< a CA of the system has signed the host name
struct KnownCas {     ///< one of these has signed the host name; may be intermediate CAs
  std::vector<Certificate> all;
};
struct CaHash {  ///< it shows a certificate of the CA whose key has this hash (Key::hash), any host
  std::string hash;
};
using Trust = std::variant<SystemCas, KnownCas, CaHash>;

/// How the failures of a client name the server, and what they say to do.
struct ServerWords {
  const char* name;
  const char* self;        ///< the one that connects
  const char* distrusted;  ///< its certificate is of another CA
  const char* plain;       ///< it does not speak TLS
};
extern const ServerWords kDaemonWords;
extern const ServerWords kDaemonOfCaFileWords;  ///< the client was given a CA
extern const ServerWords kFleetWords;           ///< the client is another daemon
extern const ServerWords kRedisWords;

/// Immutable; copies share it. Thread-safe.
class Context {
 public:
  /// For a server. With `client_cas`, asks clients for a certificate; those without one are taken,
  /// too, and those whose certificate is not good: Channel::peer() tells them apart. Fails with
  /// invalid_argument if OpenSSL does not take the certificate.
  static Result<Context> server(const Identity& identity,
                                const std::vector<Certificate>& client_cas = {});
  /// For a client. `identity`: what it shows if it is asked; may be null.
  static Result<Context> client(const Trust& trust, const Identity* identity = nullptr,
                                const ServerWords& words = kDaemonWords);

  bool is_server() const { return is_server_; }
  const ServerWords& words() const { return *words_; }
  /// Returns whether a host name must be checked.
  bool checks_host() const { return checks_host_; }
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  explicit Context(bool is_server);

  std::shared_ptr<ssl_ctx_st> context_;
  bool is_server_;
  const ServerWords* words_ = &kDaemonWords;
  bool checks_host_ = false;
  std::shared_ptr<const std::string> ca_hash_;  // to which OpenSSL's callback points
};

}  // namespace c10dd::tls
