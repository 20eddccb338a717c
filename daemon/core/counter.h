// SPDX-License-Identifier: Apache-2.0
// What the operations on keys check beside lengths and quotas: counters and times to live.
#pragma once

#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The sum of a counter kept as decimal text (nullptr: a missing key, 0) and delta. wrong_type
/// when it is no such text, out_of_range when the sum does not fit 64 bits.
Result<std::int64_t> add_to(std::string_view key, const Bytes* text, std::int64_t delta);

/// invalid_argument unless it is 0 or within limits::kKeyTtlMin .. kKeyTtlMax.
Result<void> check_ttl(Duration ttl);

}  // namespace c10dd::core
