// SPDX-License-Identifier: Apache-2.0
// Reads a number or a duration from a text that a person or another program has written.
#pragma once

#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "protocol/types.h"

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

/// Reads a duration such as 500ms, 15s, 10m or 2h; a number without a unit is seconds. Returns
/// nullopt if the text is anything else, or more than `most`.
inline std::optional<Duration> parse_duration(std::string_view text, Duration most) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},   {"s", 1},    {"ms", 1e-3},
                                                            {"m", 60}, {"min", 60}, {"h", 3600}};
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  for (const auto& [name, factor] : kUnits) {
    if (name != unit) continue;
    const std::chrono::duration<double> seconds(value * factor);
    if (!(seconds.count() >= 0 && seconds <= most)) return std::nullopt;  // also not a number
    return std::chrono::duration_cast<Duration>(seconds);
  }
  return std::nullopt;
}

}  // namespace c10dd
