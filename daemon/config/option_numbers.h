// SPDX-License-Identifier: Apache-2.0
// Reads and prints option values that are numbers: counts, seconds, sizes. If the text is not
// allowed, set_*() fails with a message that names the text and the allowed values. Each *_text()
// is the inverse of the set_*() of the same kind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Reads an integer that is at least `least` and at most `most`, and stores it in `value`.
Result<void> set_count(std::size_t& value, const std::string& text, std::size_t least,
                       std::size_t most);

/// Reads seconds, at least `least` and at most `most`. Allows fractions. Rounds to milliseconds.
Result<void> set_seconds(std::chrono::nanoseconds& value, const std::string& text, double least,
                         double most);
std::string seconds_text(std::chrono::nanoseconds value);

/// Reads a size below 8192TiB and stores it in bytes. Examples of `text`: 1048576, 64MiB, 1TiB.
Result<void> set_size(std::uint64_t& value, const std::string& text);
std::string size_text(std::uint64_t value);

/// Reads a size as set_size() does. For the text "auto", stores nullopt.
Result<void> set_auto_size(std::optional<std::uint64_t>& value, const std::string& text);
std::string auto_size_text(std::optional<std::uint64_t> value);

}  // namespace c10dd::daemon
