// SPDX-License-Identifier: Apache-2.0
// Option values that are numbers: counts, seconds, sizes. Each set_*() fails with a message that
// names the text and the allowed values. Each *_text() returns a text from which set_*() gets the
// same value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Stores an integer from `least` to `most`.
Result<void> set_count(std::size_t& value, const std::string& text, std::size_t least,
                       std::size_t most);

/// Stores a number of seconds from `least` to `most`, fractions allowed, rounded to milliseconds.
Result<void> set_seconds(std::chrono::nanoseconds& value, const std::string& text, double least,
                         double most);
std::string seconds_text(std::chrono::nanoseconds value);

/// Stores a number of bytes below 8192TiB, for example 1048576, 512KiB, 64MiB, 4GiB or 1TiB.
Result<void> set_size(std::uint64_t& value, const std::string& text);
std::string size_text(std::uint64_t value);

/// Stores a size as set_size() does, or no value for "auto".
Result<void> set_auto_size(std::optional<std::uint64_t>& value, const std::string& text);
std::string auto_size_text(std::optional<std::uint64_t> value);

}  // namespace c10dd::daemon
