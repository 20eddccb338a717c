// SPDX-License-Identifier: Apache-2.0
// The checks of counters and times to live, which single operations and transactions share.
#pragma once

#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Returns the sum of a counter, which is stored as decimal text, and `delta`. nullptr means a
/// missing key and counts as 0. Fails with wrong_type if the text is not a decimal integer of 64
/// bits, and with out_of_range if the sum overflows.
Result<std::int64_t> add_to(std::string_view key, const Bytes* text, std::int64_t delta);

/// Fails with invalid_argument unless `ttl` is 0 or from limits::kKeyTtlMin to kKeyTtlMax.
Result<void> check_ttl(Duration ttl);

}  // namespace c10dd::core
