// SPDX-License-Identifier: Apache-2.0
// Keys that sign tokens and certificates, and those that check them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "protocol/error.h"

struct evp_pkey_st;

namespace c10dd::tls {

/// Returns the SHA-256 of a text, 32 bytes.
std::string sha256(std::string_view text);

/// How a token is signed (RFC 7518): ECDSA on P-256, or RSA with PKCS #1 1.5; both with SHA-256.
enum class Signature { es256, rs256 };

/// A public key, perhaps with its private part. Immutable; copies share it. Thread-safe.
class Key {
 public:
  /// Makes a pair of keys on P-256.
  static Key make();
  /// Reads a private key in PEM, which is not encrypted. `what` names it in the failure,
  /// invalid_argument.
  static Result<Key> from_private_pem(std::string_view pem, std::string_view what);
  /// From the numbers of a JSON Web Key (RFC 7518, 6.2 and 6.3): big-endian bytes. Fails with
  /// invalid_argument if they are not a key, or an RSA key below 2,048 bits.
  static Result<Key> from_ec_point(std::string_view x, std::string_view y);
  static Result<Key> from_rsa(std::string_view modulus, std::string_view exponent);
  /// Takes over a reference.
  explicit Key(evp_pkey_st* taken);

  /// Returns the private key in PEM (PKCS #8). The key must have its private part.
  std::string private_pem() const;
  /// Returns the SHA-256 of the public key (SubjectPublicKeyInfo), 32 bytes.
  std::string hash() const;

  /// Returns the signature of a text by ES256: 64 bytes. The key must be on P-256, and have its
  /// private part.
  std::string sign(std::string_view text) const;
  /// Returns whether `signature` is that of the text by this key. False if the key is of another
  /// kind than `how` needs.
  bool verifies(Signature how, std::string_view text, std::string_view signature) const;
  /// Returns whether the key can check signatures of this kind.
  bool fits(Signature how) const;

  bool is_same(const Key& other) const;
  evp_pkey_st* get() const { return key_.get(); }

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

}  // namespace c10dd::tls
