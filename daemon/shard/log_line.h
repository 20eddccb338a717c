// SPDX-License-Identifier: Apache-2.0
// Writes lines of the daemon's log, each a list of `key=value`. Guarantees that no value, wherever
// it comes from, ends its field or its line: a text stands in double quotes unless it is a plain
// word. All lines of the daemon are written by the functions here.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {

/// A value of a log line that is always in quotes, because it is a sentence.
struct Sentence {
  std::string_view text;
};

/// A field with the space before it. It is left out if its value is empty.
struct OptionalField {
  OptionalField(std::string_view name, std::string_view text) : key(name), value(text) {}

  std::string_view key;
  std::string value;
};

enum class LogLevel : std::uint8_t { info, warn, error, critical };

namespace detail {

inline std::string log_value(Sentence sentence) { return quoted_text(sentence.text); }
inline std::string log_value(const OptionalField& field) {
  return field.value.empty() ? "" : c10dd::format(" {}={}", field.key, word_or_quoted(field.value));
}
inline std::string log_value(std::string_view text) { return word_or_quoted(text); }
template <std::integral Number>
Number log_value(Number number) {
  return number;
}
template <std::floating_point Number>
Number log_value(Number number) {
  return number;
}
template <class T>
using LogValue = decltype(log_value(std::declval<const T&>()));

void write_line(LogLevel level, const std::string& line);

}  // namespace detail

/// Writes a line with the values in place of the braces. The values may be texts and numbers.
template <class... T>
void log_as(LogLevel level, fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  detail::write_line(level, c10dd::format(text, detail::log_value(values)...));
}
template <class... T>
void log_info(fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  log_as<T...>(LogLevel::info, text, values...);
}
template <class... T>
void log_warn(fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  log_as<T...>(LogLevel::warn, text, values...);
}
template <class... T>
void log_error(fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  log_as<T...>(LogLevel::error, text, values...);
}

}  // namespace c10dd::daemon
