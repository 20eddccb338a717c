// SPDX-License-Identifier: Apache-2.0
// The first line names an operation, the rest is its body: what decodes must encode to text that
// decodes to the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "protocol/json_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view in(reinterpret_cast<const char*>(data), size);
  const std::size_t line = in.find('\n');
  if (line == in.npos) return 0;
  const std::string_view op = in.substr(0, line);
  const auto request = c10dd::json::decode_request(op, in.substr(line + 1));
  if (!request) {
    if (c10dd::json::encode_reply_body(request.error()).empty()) std::abort();
    return 0;
  }
  const std::string once = c10dd::json::encode_request(*request);
  const auto again = c10dd::json::decode_request(op, once);
  if (!again || c10dd::json::encode_request(*again) != once) std::abort();
  return 0;
}
