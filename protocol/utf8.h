// SPDX-License-Identifier: Apache-2.0
// Checks strings from clients and servers, and makes them printable for metrics, logs, terminals
// and JSON. A single byte that is not UTF-8 makes a whole scrape of the metrics fail, and an escape
// sequence changes what a terminal shows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace c10dd {

/// Returns the length in bytes of the first character of `text`. Returns 0 if `text` is empty or
/// does not begin with a well-formed character.
std::size_t character_length(std::string_view text);

/// Tells whether `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

/// Returns `text` with a '?' for each control character and ill-formed byte. Control characters are
/// C0, DEL, C1, the line separators of Unicode, and the characters that change the direction of the
/// text, because they can show a text as another one. Cuts the result to `max_bytes` at a character
/// boundary.
std::string printable(std::string_view text, std::size_t max_bytes);
/// Returns a name with limits::kNameBytes at most.
std::string printable_name(std::string_view name);
/// Returns `text` as printable() does, but keeps the ends of its lines.
std::string printable_lines(std::string_view text);
/// Returns a text of a server of another project, for an error or a log, with
/// limits::kForeignTextBytes at most.
std::string foreign_text(std::string_view text);

}  // namespace c10dd
