// SPDX-License-Identifier: Apache-2.0
// Decodes the percent-encoding of the parts of a URL, RFC 3986.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace c10dd {

/// Decodes each %XX. Returns nothing if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace c10dd
