// SPDX-License-Identifier: Apache-2.0
// Strings from strangers on their way to logs, metrics and JSON: printable text is UTF-8, is short
// enough and stays as it is; base64 has one form.
#include "protocol/base64.h"
#include "protocol/utf8.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  c10dd::fuzz::Input in(data, size);
  const std::size_t most = in.byte();
  const std::string_view text = in.rest();
  const std::string shown = c10dd::printable(text, most);
  C10DD_ASSERT(shown.size() <= most && c10dd::is_utf8(shown));
  C10DD_ASSERT(c10dd::printable(shown, most) == shown);
  const std::string whole = c10dd::printable(text, text.size());
  C10DD_ASSERT(whole.starts_with(shown));
  for (const char c : whole) C10DD_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  if (whole == text) C10DD_ASSERT(c10dd::is_utf8(text));

  const std::string encoded = c10dd::base64_encode(text);
  C10DD_ASSERT(c10dd::base64_decode(encoded) == text);
  if (const auto decoded = c10dd::base64_decode(text)) {
    C10DD_ASSERT(c10dd::base64_encode(*decoded) == text);
  }
  return 0;
}
