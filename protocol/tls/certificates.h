// SPDX-License-Identifier: Apache-2.0
// Certificate reads X.509 certificates. The functions make_...() issue those of a small CA.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/tls/keys.h"

struct x509_st;

namespace c10dd::tls {

/// Unix time.
using WallTime = std::chrono::sys_seconds;

/// A certificate. Immutable; copies share it. Thread-safe.
class Certificate {
 public:
  /// Takes over a reference.
  explicit Certificate(x509_st* taken);

  /// Returns the serial number in hexadecimal.
  std::string serial() const;
  /// Returns the common name; empty if it has none.
  std::string name() const;
  WallTime begins() const;
  WallTime ends() const;
  bool is_ca() const;
  /// Returns whether its own key has signed it.
  bool is_root() const;
  /// Returns whether a further CA may stand between it and a certificate of a daemon.
  bool allows_ca_below() const;
  /// Returns whether it says that a server may show it (extended key usage serverAuth).
  bool may_serve() const;
  /// Returns whether its signature is that of this key.
  bool is_signed_by(const Key& key) const;
  Key key() const;
  /// Returns the DNS names and addresses for which a server may show it, in this order.
  std::vector<std::string> hosts() const;
  /// Returns whether a client that connects to this DNS name or address accepts it.
  bool is_for(const std::string& host) const;
  /// Returns its URIs, such as the identity of SPIFFE.
  std::vector<std::string> uris() const;
  std::string pem() const;
  x509_st* get() const { return certificate_.get(); }

 private:
  std::shared_ptr<x509_st> certificate_;
};

/// Reads all certificates of a PEM file, at least one. `what` names the file in the failure,
/// invalid_argument.
Result<std::vector<Certificate>> certificates_of(std::string_view pem, std::string_view what);

/// What a new certificate says.
struct NewCertificate {
  std::string name;                     ///< common name, at most 64 bytes
  std::vector<std::string> hosts = {};  ///< DNS names and addresses of a server
  WallTime begins;
  WallTime ends;
};

/// Makes a CA certificate, which signs itself and allows one further CA below it.
Certificate make_ca(const NewCertificate& of, const Key& key);
/// Makes the certificate of the same CA once more, by which a further CA may stand below it. What
/// trusts the key of this CA trusts it.
Certificate make_roomy(const Certificate& root, const Key& key);
/// Makes a certificate of the CA `of` that the CA `by` has signed: who trusts `by` then accepts
/// what `of` signs. It ends with the first of the two.
Certificate make_cross(const Certificate& of, const Certificate& by, const Key& by_key);
/// Makes the certificate of a daemon, which it shows as a server; daemons of earlier versions also
/// show it to others of their fleet, as a client. Fails with
/// invalid_argument if a host is neither a DNS name nor an address, or the list is empty.
Result<Certificate> make_server(const NewCertificate& of, const Key& key, const Certificate& ca,
                                const Key& ca_key);

}  // namespace c10dd::tls
