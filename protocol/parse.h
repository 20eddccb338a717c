// SPDX-License-Identifier: Apache-2.0
// Reads a number from a text that a person or another program has written.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace c10dd {

/// Reads the whole text as one number. Returns nothing if the text is not exactly one number, or if
/// the number is out of Number's range. No space or '+' may precede the number. `base` is for
/// integers.
template <class Number, class... Base>
std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace c10dd
