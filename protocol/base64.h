// SPDX-License-Identifier: Apache-2.0
// Base64 of RFC 4648, section 4, in its one canonical form: padded, no line breaks, unused bits
// zero.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace c10dd {

std::string base64_encode(std::string_view bytes);

/// The bytes, or nothing when text is not exactly what base64_encode makes of some bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace c10dd
