// SPDX-License-Identifier: Apache-2.0
// Base64 of RFC 4648, section 4, in canonical form only: padded, without line breaks, unused bits
// zero.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace c10dd {

/// Encodes bytes as padded base64.
std::string base64_encode(std::string_view bytes);

/// Returns the bytes; nothing if `text` is not canonical, that is, not a result of base64_encode.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace c10dd
