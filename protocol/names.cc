// SPDX-License-Identifier: Apache-2.0
// The ranges are those of Unicode 15: the properties White_Space, Default_Ignorable_Code_Point,
// Bidi_Control and Noncharacter_Code_Point, and the general categories Cc, Zl and Zp.
#include "protocol/names.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

constexpr Range kInvisible[] = {
    {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x061C, 0x061C},
    {0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0x3164, 0x3164}, {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};
constexpr Range kBlanks[] = {
    {0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x202F, 0x202F}, {0x205F, 0x205F}, {0x2800, 0x2800}, {0x3000, 0x3000},
};

template <std::size_t N>
bool is_in(const Range (&ranges)[N], std::uint32_t code) {
  return std::ranges::any_of(
      ranges, [&](const Range& one) { return one.first <= code && code <= one.last; });
}

bool is_invisible(std::uint32_t code) {
  return is_in(kInvisible, code) || (code & 0xFFFEu) == 0xFFFEu;  // the last two of each plane
}

std::uint32_t code_of(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7Fu >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return code;
}

Failure bad_name(std::string_view what, std::string_view name, const std::string& why) {
  return failure(
      Code::invalid_argument,
      "the {} name \"{}\" {}; use 1 to {} bytes of UTF-8 without invisible characters, and "
      "without a blank at the begin or end",
      what, printable(name, limits::kNameShown), why, limits::kNameBytes);
}

}  // namespace

Result<void> check_name(std::string_view what, std::string_view name) {
  if (!name.empty()) return check_name_or_none(what, name);
  return failure(Code::invalid_argument, "the {} name is empty; use 1 to {} bytes of UTF-8", what,
                 limits::kNameBytes);
}

Result<void> check_name_or_none(std::string_view what, std::string_view name) {
  if (name.size() > limits::kNameBytes) {
    return bad_name(what, name, format("has {} bytes", name.size()));
  }
  std::uint32_t code = 0;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = character_length(name.substr(at));
    if (length == 0) return bad_name(what, name, format("is no UTF-8 at byte {}", at));
    code = code_of(name.substr(at, length));
    if (is_invisible(code)) {
      return bad_name(what, name, format("has the character U+{:04X} at byte {}", code, at));
    }
    if (at == 0 && is_in(kBlanks, code)) return bad_name(what, name, "begins with a blank");
    at += length;
  }
  if (is_in(kBlanks, code)) return bad_name(what, name, "ends with a blank");
  return {};
}

}  // namespace c10dd
