// SPDX-License-Identifier: Apache-2.0
// Any bytes as the answer of an exchange: what decodes is exactly what a daemon writes.
#include "client/internal/barrier_calls.h"
#include "protocol/fields.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(exchange_parts) {
  const std::string_view bytes = c10dd::fuzz::Input(data, size).rest();
  const auto parts = c10dd::client::decode_parts(bytes);
  if (!parts) return 0;
  c10dd::Bytes again;
  c10dd::wire::Writer(again).put(*parts);
  C10DD_ASSERT(again == bytes);
  return 0;
}
