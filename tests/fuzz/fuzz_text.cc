// SPDX-License-Identifier: Apache-2.0
// Text of clients that is shown in logs, metrics and JSON: printable() returns UTF-8 within the
// limit, and does not change text that is printable.
#include "protocol/utf8.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(text) {
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
  return 0;
}
