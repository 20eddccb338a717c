// SPDX-License-Identifier: Apache-2.0
// Sets of public keys (JSON Web Key Set, RFC 7517), by which the tokens of other issuers are
// checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/tls/keys.h"

namespace c10dd::tls {

struct NamedKey {
  std::string id;  ///< "kid"; may be empty
  Signature how;
  Key key;
};

struct KeySet {
  std::vector<NamedKey> keys;         ///< at least one
  std::vector<std::string> left_out;  ///< sentences: which keys cannot be used, and why
};

/// Reads the keys of a set that sign by ES256 or RS256. Leaves out those that are weak, damaged or
/// of other kinds, and those that are not meant to sign; of the latter no sentence tells. `what`
/// names the text in the sentences and in the failure, invalid_argument: it is not a set, has more
/// than kMostKeys keys, or none that can be used.
inline constexpr std::size_t kMostKeys = 64;
Result<KeySet> keys_of(std::string_view text, std::string_view what);

}  // namespace c10dd::tls
