// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/pickle_bytes.h"

#include "protocol/parse.h"

namespace c10dd::ctl {
namespace {

constexpr std::uint32_t kLastCharacter = 0x10FFFF;

void append_utf8(std::string& to, std::uint32_t character) {
  const auto append = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
  if (character < 0x80) return append(character);
  if (character < 0x800) {
    append(0xC0 | character >> 6);
  } else {
    if (character < 0x10000) {
      append(0xE0 | character >> 12);
    } else {
      append(0xF0 | character >> 18);
      append(0x80 | (character >> 12 & 0x3F));
    }
    append(0x80 | (character >> 6 & 0x3F));
  }
  append(0x80 | (character & 0x3F));
}

}  // namespace

std::optional<std::string_view> PickleBytes::take(std::uint64_t count) {
  if (count > left()) return std::nullopt;
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

std::optional<std::uint64_t> PickleBytes::take_number(std::size_t width) {
  const std::optional<std::string_view> raw = take(width);
  if (!raw) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>((*raw)[i]);
  return value;
}

std::optional<std::string_view> PickleBytes::take_counted(std::size_t width) {
  const std::optional<std::uint64_t> count = take_number(width);
  return count ? take(*count) : std::nullopt;
}

std::optional<std::string_view> PickleBytes::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

std::optional<std::string> unescaped(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const bool is_long = line.starts_with("\\U");
    if (!is_long && !line.starts_with("\\u")) {
      append_utf8(text, static_cast<unsigned char>(line.front()));
      line.remove_prefix(1);
      continue;
    }
    const std::size_t width = is_long ? 8 : 4;
    const auto character = parse_number<std::uint32_t>(line.substr(2, width), 16);
    if (line.size() < 2 + width || !character || *character > kLastCharacter) return std::nullopt;
    append_utf8(text, *character);
    line.remove_prefix(2 + width);
  }
  return text;
}

}  // namespace c10dd::ctl
