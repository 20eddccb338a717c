// SPDX-License-Identifier: Apache-2.0
// Settings that are numbers: counts, seconds, sizes. A refusal names the text and what is allowed.
// What is printed of a value sets that value again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"

namespace c10dd::daemon {

/// A whole number from `least` to `most`.
Result<void> set_count(std::size_t& value, const std::string& text, std::size_t least,
                       std::size_t most);

/// Seconds from `least` to `most`, fractions allowed.
Result<void> set_seconds(std::chrono::nanoseconds& value, const std::string& text, double least,
                         double most);
std::string seconds_text(std::chrono::nanoseconds value);

/// Bytes, as in 1048576, 512KiB, 64MiB, 4GiB or 1TiB.
Result<void> set_size(std::uint64_t& value, const std::string& text);
std::string size_text(std::uint64_t value);

/// The same, or "auto" for none.
Result<void> set_auto_size(std::optional<std::uint64_t>& value, const std::string& text);
std::string auto_size_text(std::optional<std::uint64_t> value);

}  // namespace c10dd::daemon
