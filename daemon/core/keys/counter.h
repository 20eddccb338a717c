// SPDX-License-Identifier: Apache-2.0
// Checks counters and times to live, for single operations and for transactions.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Returns the number at the start of a text, as C's strtoll reads it in base 10: blanks, then a
/// sign, then digits; what follows is ignored. Returns nothing if the text has no digits there, or
/// if the number does not fit in 64 bits.
std::optional<std::int64_t> number_at_start(std::string_view text);

/// Returns the sum of `delta` and the counter in `text`, which is a decimal number. If `text` is
/// empty, the key does not exist and the counter is 0. Fails with wrong_type if the text is not a
/// decimal integer of 64 bits, and with out_of_range if the sum overflows.
Result<std::int64_t> add_to(std::string_view key, std::optional<std::string_view> text,
                            std::int64_t delta);

/// Does the same, but reads the counter with number_at_start(), and lets the sum wrap around, as
/// PyTorch's TCPStore does. Fails with invalid_argument if number_at_start() returns nothing.
Result<std::int64_t> add_leniently(std::string_view key, std::optional<std::string_view> text,
                                   std::int64_t delta);

/// Fails with invalid_argument unless `ttl` is 0 or between limits::kKeyTtlMin and kKeyTtlMax.
Result<void> check_ttl(Duration ttl);

}  // namespace c10dd::core
