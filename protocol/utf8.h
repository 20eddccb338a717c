// SPDX-License-Identifier: Apache-2.0
// Strings from clients on their way to metrics, logs and JSON: whether they are valid UTF-8, and
// a printable form when they are not to be trusted. One bad byte would take a whole scrape down.
#pragma once

#include <string>
#include <string_view>

namespace c10dd {

/// Whether text is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

/// Text with control bytes and ill-formed bytes as '?', cut to max_bytes at a character boundary.
std::string printable(std::string_view text, std::size_t max_bytes);

}  // namespace c10dd
