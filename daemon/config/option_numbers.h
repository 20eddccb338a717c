// SPDX-License-Identifier: Apache-2.0
// Reads and prints option values that are numbers: counts, seconds, sizes. Each set_*() fails with
// a message that names the text and the allowed values. Each *_text() returns a text that the
// set_*() of the same kind turns back into the value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Stores the integer in `text`, which must be from `least` to `most`.
Result<void> set_count(std::size_t& value, const std::string& text, std::size_t least,
                       std::size_t most);

/// Stores the seconds in `text`, from `least` to `most`, rounded to milliseconds. Allows fractions.
Result<void> set_seconds(std::chrono::nanoseconds& value, const std::string& text, double least,
                         double most);
std::string seconds_text(std::chrono::nanoseconds value);

/// Stores a size below 8192TiB, in bytes. Valid texts are, for example, 1048576, 64MiB and 1TiB.
Result<void> set_size(std::uint64_t& value, const std::string& text);
std::string size_text(std::uint64_t value);

/// Stores a size as set_size() does. For the text "auto", stores nullopt.
Result<void> set_auto_size(std::optional<std::uint64_t>& value, const std::string& text);
std::string auto_size_text(std::optional<std::uint64_t> value);

}  // namespace c10dd::daemon
