// SPDX-License-Identifier: Apache-2.0
// AccessRules: what the files of --tls and --grants say of who somebody is, and what he may do.
// Pure: the texts of the files and the time are arguments.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/grants_file.h"
#include "daemon/core/sessions/grants.h"
#include "protocol/tls/context.h"
#include "protocol/tls/jwks.h"
#include "protocol/tls/token.h"

namespace c10dd::daemon {

/// A file: its path, for failures, and what is in it.
struct FileText {
  std::string path;
  std::string text;
};

/// What the files that belong together say.
struct AccessTexts {
  FileText chain;                   ///< tls.crt: the daemon's certificate
  FileText key;                     ///< tls.key
  FileText ca;                      ///< ca.crt: the CA of this cluster
  GrantsFile grants = {};           ///< of --grants
  std::vector<FileText> jwks = {};  ///< those that the grants name, in any order
};

/// Who somebody is, and what he may do.
struct Principal {
  std::string name;  ///< principal_name()
  core::JobRoles roles;
  tls::WallTime ends;  ///< of the token or the certificate
  /// A CA has signed the token that another one replaces: see AccessRules::has_former_ca().
  bool is_of_former_ca = false;
};

/// Returns the name of a principal, which is printable: ISSUER:SUBJECT, or SUBJECT if `issuer` is
/// empty, for a token of c10ddctl. No two principals have the same name: one that is long, or that
/// could be taken for another one, ends with a hash.
std::string principal_name(std::string_view issuer, std::string_view subject);

/// Immutable. Thread-safe.
class AccessRules {
 public:
  /// Fails with invalid_argument: the text names the file, what is wrong, and what to do.
  static Result<std::shared_ptr<const AccessRules>> of(const AccessTexts& texts, tls::WallTime now);

  /// For connections that this daemon accepts.
  const tls::Context& server() const { return server_; }
  /// For connections to other daemons of the fleet, which must be of the same CA. Shows no
  /// certificate.
  const tls::Context& to_daemons() const { return to_daemons_; }
  /// For connections to this daemon itself, by whatever name: it must be of the same CA.
  const tls::Context& to_own_daemon() const { return to_own_daemon_; }
  /// The certificate that this daemon shows.
  const tls::Certificate& certificate() const { return certificate_; }

  /// Returns sentences that say which keys of JWKS files cannot be used.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Returns whether the first CA of ca.crt is about to replace another one: it has signed that
  /// one, too, as c10ddctl ca renew lets it.
  bool has_former_ca() const { return !former_.empty(); }

  /// Returns whether ca.crt has the CA with this Key::hash().
  bool has_ca(const std::string& hash) const { return cas_.contains(hash); }

  /// Checks a token. Fails with unauthenticated; the text says what to do.
  Result<Principal> by_token(std::string_view text, tls::WallTime now) const;
  /// Returns the principal of a client's certificate, which was verified in the handshake: the
  /// first of its URIs for which there is a grant. Fails with unauthenticated if there is none, or
  /// the certificate has expired since.
  Result<Principal> by_certificate(const tls::Certificate& shown, tls::WallTime now) const;

 private:
  /// An issuer with its keys.
  struct Issuer {
    IssuerEntry entry;
    std::vector<tls::NamedKey> keys;
  };

  AccessRules(tls::Certificate certificate, tls::Context server, tls::Context to_daemons,
              tls::Context to_own_daemon)
      : certificate_(std::move(certificate)),
        server_(std::move(server)),
        to_daemons_(std::move(to_daemons)),
        to_own_daemon_(std::move(to_own_daemon)) {}

  Result<Principal> own(const tls::Token& token, tls::WallTime now) const;
  Result<Principal> of_issuers(const tls::Token& token, tls::WallTime now) const;
  Result<Principal> of_issuer(const Issuer& issuer, const tls::Token& token,
                              tls::WallTime now) const;

  tls::Certificate certificate_;
  tls::Context server_;
  tls::Context to_daemons_;
  tls::Context to_own_daemon_;
  std::map<std::string, tls::Key> cas_;  // by their hash
  std::set<std::string> former_;         // hashes of those that the first one replaces
  std::vector<Issuer> issuers_;
  std::vector<std::string> left_out_;
  GrantsFile grants_;
};

}  // namespace c10dd::daemon
