// SPDX-License-Identifier: Apache-2.0
// Reads and prints numbers with from_chars and to_chars, which ignore the locale.
#include "daemon/config/option_numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "protocol/format.h"
#include "protocol/parse.h"

namespace c10dd::daemon {
namespace {

constexpr std::pair<std::string_view, int> kUnits[] = {
    {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};
constexpr int kSizeBits = 53;  // TOML and JSON numbers are exact for integers of up to 53 bits

std::string text_of(double number) {
  std::array<char, 64> text;
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  C10DD_ASSERT(error == std::errc());
  return std::string(text.data(), end);
}

}  // namespace

Result<void> set_count(std::size_t& value, const std::string& text, std::size_t least,
                       std::size_t most) {
  const auto parsed = parse_number<std::size_t>(text);
  if (!parsed || *parsed < least || *parsed > most) {
    return failure(Code::invalid_argument, "\"{}\" is not an integer from {} to {}", text, least,
                   most);
  }
  value = *parsed;
  return {};
}

Result<void> set_seconds(std::chrono::nanoseconds& value, const std::string& text, double least,
                         double most) {
  const auto seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= least && *seconds <= most)) {  // NaN is refused too
    return failure(Code::invalid_argument,
                   "\"{}\" is not a number of seconds from {} to {}, for example 30 or 2.5", text,
                   text_of(least), text_of(most));
  }
  value = std::chrono::milliseconds(std::llround(*seconds * 1000));
  return {};
}

std::string seconds_text(std::chrono::nanoseconds value) {
  return text_of(std::chrono::duration<double>(value).count());
}

Result<void> set_size(std::uint64_t& value, const std::string& text) {
  for (const auto& [unit, shift] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number =
        parse_number<std::uint64_t>(std::string_view(text).substr(0, text.size() - unit.size()));
    if (!number || *number >> (kSizeBits - shift) != 0) break;  // the size would be too large
    value = *number << shift;
    return {};
  }
  return failure(Code::invalid_argument,
                 "\"{}\" is not a size below {}; use for example 1048576, 512KiB, 64MiB or 4GiB",
                 text, size_text(std::uint64_t{1} << kSizeBits));
}

std::string size_text(std::uint64_t value) {
  for (const auto& [unit, shift] : kUnits) {
    const bool fits = value >> shift << shift == value;
    if (value != 0 && fits) return std::to_string(value >> shift) + std::string(unit);
  }
  return "0";
}

Result<void> set_auto_size(std::optional<std::uint64_t>& value, const std::string& text) {
  if (text == "auto") {
    value.reset();
    return {};
  }
  std::uint64_t size = 0;
  if (const Result<void> done = set_size(size, text); !done) {
    return failure(Code::invalid_argument, done.error().detail + ", or auto");
  }
  value = size;
  return {};
}

std::string auto_size_text(std::optional<std::uint64_t> value) {
  return value ? size_text(*value) : "auto";
}

}  // namespace c10dd::daemon
