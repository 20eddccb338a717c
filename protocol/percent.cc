// SPDX-License-Identifier: Apache-2.0
#include "protocol/percent.h"

#include "protocol/parse.h"

namespace c10dd {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    const std::string_view digits = text.substr(at + 1, 2);
    const auto byte = parse_number<unsigned>(digits, 16);
    if (digits.size() < 2 || !byte) return std::nullopt;
    out += static_cast<char>(*byte);
    at += 2;
  }
  return out;
}

}  // namespace c10dd
