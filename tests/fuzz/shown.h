// SPDX-License-Identifier: Apache-2.0
// What holds for each failure whose text has words of somebody else: a terminal shows it, and obeys
// nothing in it.
#pragma once

#include <string_view>

#include "protocol/error.h"

namespace c10dd::fuzz {

/// Returns whether the text has something, and no control character. Faster than printable().
inline bool is_shown(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next >= 0x80 && next < 0xA0)) return false;
  }
  return !text.empty();
}

template <class T>
void expect_shown(const Result<T>& result) {
  C10DD_ASSERT(result || is_shown(result.error().detail));
}

}  // namespace c10dd::fuzz
