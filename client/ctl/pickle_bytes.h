// SPDX-License-Identifier: Apache-2.0
// PickleBytes: takes the operands of a pickle's operations from its bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace c10dd::ctl {

/// All functions that take something return nothing if the bytes end before it does.
class PickleBytes {
 public:
  explicit PickleBytes(std::string_view bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  std::optional<std::string_view> take(std::uint64_t count);
  /// Takes a number without sign, with its low byte first.
  std::optional<std::uint64_t> take_number(std::size_t width);
  /// Takes a number of this width, and then as many bytes as it says.
  std::optional<std::string_view> take_counted(std::size_t width);
  /// Takes the bytes before the end of the line, and that end.
  std::optional<std::string_view> take_line();

 private:
  const std::string_view bytes_;
  std::size_t at_ = 0;
};

/// Reads Latin-1 with escapes such as \u20ac, as protocol 0 has texts. Returns nothing if an escape
/// is wrong.
std::optional<std::string> unescaped(std::string_view line);

}  // namespace c10dd::ctl
