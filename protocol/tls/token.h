// SPDX-License-Identifier: Apache-2.0
// Tokens: JSON Web Tokens (RFC 7519) in compact form, signed by ES256 or RS256. They say who a
// client is. Pure: the caller passes the time.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/tls/certificates.h"
#include "protocol/tls/keys.h"

namespace c10dd::tls {

/// The bytes of the longest token that is read; also of a hello's credential.
inline constexpr std::size_t kTokenBytes = 8'192;
/// The clock of an issuer may differ so much from that of a daemon.
inline constexpr std::chrono::seconds kClockSkew{60};

/// A token whose signature is not checked yet.
struct Token {
  Signature how = Signature::es256;
  std::string key_id = {};       ///< "kid"; may be empty
  std::string issuer = {};       ///< "iss"; may be empty
  std::string subject = {};      ///< "sub"; may be empty
  std::string body = {};         ///< all claims, in JSON
  std::string signed_text = {};  ///< what the signature is of
  std::string signature = {};
  std::vector<std::string> audiences = {};  ///< "aud"
  std::optional<WallTime> ends = {};        ///< "exp"
  std::optional<WallTime> begins = {};      ///< "nbf"
};

/// Returns the failure unauthenticated: "the token WHY; ask for a new one".
Failure bad_token(std::string_view why);

/// Reads a token. Spaces and line ends around it are ignored. Fails with unauthenticated: the text
/// says what is wrong, and names no part of the token.
Result<Token> token_of(std::string_view text);

/// Fails with unauthenticated unless `key` has signed the token, and `now` is in its time. A token
/// that never ends is refused.
Result<void> check(const Token& token, const Key& key, WallTime now);

/// The roles that a token of c10ddctl may give, the lowest first.
inline constexpr std::array<std::string_view, 3> kRoles = {"viewer", "trainer", "admin"};

/// The tokens that the CA of c10ddctl signs.
struct OwnToken {
  std::string name;
  std::string role;               ///< one of kRoles
  std::vector<std::string> jobs;  ///< patterns of job names
  WallTime begins;
  WallTime ends;
  std::string ca_hash;  ///< Key::hash() of the CA
};
/// The "iss" of such a token.
inline constexpr std::string_view kOwnIssuer = "c10dd";

/// Signs a token with the key of the CA, on P-256. OwnToken::ca_hash is not used.
std::string signed_token(const OwnToken& of, const Key& ca_key);
/// Returns what such a token says; fails with unauthenticated if it is another kind of token, or
/// not as signed_token() makes it. Checks no signature and no time.
Result<OwnToken> own_token(const Token& token);

}  // namespace c10dd::tls
