// SPDX-License-Identifier: Apache-2.0
// Base64 of RFC 4648, in canonical form only: without line breaks, unused bits zero. The form of
// section 4 is padded; the one for URLs, section 5, is not, and has - and _ instead of + and /.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace c10dd {

/// Encodes bytes as padded base64.
std::string base64_encode(std::string_view bytes);

/// Returns the bytes; nothing if `text` is not canonical, that is, not a result of base64_encode.
std::optional<std::string> base64_decode(std::string_view text);

/// Does the same in the form for URLs.
std::string base64url_encode(std::string_view bytes);
std::optional<std::string> base64url_decode(std::string_view text);

}  // namespace c10dd
