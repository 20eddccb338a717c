// SPDX-License-Identifier: Apache-2.0
// Checks UTF-8 by the table of RFC 3629, section 4.
#include "protocol/utf8.h"

#include <algorithm>

#include "protocol/limits.h"

namespace c10dd {
namespace {

/// Tells whether a well-formed character is a control character, see printable().
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) {
    return (byte(0) == 0xC2 && byte(1) < 0xA0)       // U+0080 to U+009F
           || (byte(0) == 0xD8 && byte(1) == 0x9C);  // U+061C
  }
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const unsigned low = byte(1) << 8 | byte(2);
  return low == 0x808E || low == 0x808F        // U+200E, U+200F
         || (low >= 0x80A8 && low <= 0x80AE)   // U+2028 to U+202E
         || (low >= 0x81A6 && low <= 0x81A9);  // U+2066 to U+2069
}

}  // namespace

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const bool plain = length > 0 && !is_control(text.substr(0, length));
    const std::string_view piece = plain ? text.substr(0, length) : std::string_view("?");
    if (out.size() + piece.size() > max_bytes) break;
    out += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string printable_name(std::string_view name) { return printable(name, limits::kNameBytes); }

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    out += printable(line, line.size());
    if (line.size() < text.size()) out += '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

std::string foreign_text(std::string_view text) {
  return printable(text, limits::kForeignTextBytes);
}

}  // namespace c10dd
