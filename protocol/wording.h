// SPDX-License-Identifier: Apache-2.0
// How both sides write durations, ranks and missing keys for people: bounded and printable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd {

/// "0.5 s", "30 s", "10 min": as people write durations.
std::string human(Duration duration);

/// In double quotes, with those and backslashes inside escaped: a value in a log line.
std::string quoted(std::string_view text);

/// Ascending ranks as ranges, "[17,512-519]"; at most limits::kMissingNamed ranges, then ",...".
std::string fold(std::span<const Rank> ranks);

/// timed_out of a wait for `asked` keys, naming the first missing ones.
Failure missing_keys(const std::vector<Bytes>& missing, std::size_t asked, Duration timeout);

/// Likewise not_found, of a look that did not wait.
Failure keys_not_found(const std::vector<Bytes>& missing, std::size_t asked);

/// wrong_type of an add: what the key has instead of a decimal integer.
Failure not_a_counter(std::string_view key, std::size_t value_bytes);

}  // namespace c10dd
