// SPDX-License-Identifier: Apache-2.0
// Reads numbers that people and other programs write.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace c10dd {

/// Reads the whole text as one number. Returns nothing if the text is empty, has any other
/// character (also a leading space or '+'), or is out of Number's range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace c10dd
