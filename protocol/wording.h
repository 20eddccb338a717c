// SPDX-License-Identifier: Apache-2.0
// Texts that client and daemon write for people: durations, ranks, missing keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd {

/// Returns a duration as people write it: "0.5 s", "30 s", "10 min".
std::string human(Duration duration);

/// Formats a value for a log line: in double quotes, with inner quotes and backslashes escaped.
std::string quoted(std::string_view text);

/// Returns ascending ranks as a text of ranges, such as "[17,512-519]". Writes ",..." in place of
/// all ranges after the first limits::kMissingNamed.
std::string fold(std::span<const Rank> ranks);

/// Returns the timed_out failure of a wait for `asked` keys. It names the first missing keys.
Failure missing_keys(const std::vector<Bytes>& missing, std::size_t asked, Duration timeout);

/// Returns the not_found failure of a request for `asked` keys that does not wait.
Failure keys_not_found(const std::vector<Bytes>& missing, std::size_t asked);

/// Returns the wrong_type failure of an add to a key whose value is not a decimal integer.
Failure not_a_counter(std::string_view key, std::size_t value_bytes);

}  // namespace c10dd
