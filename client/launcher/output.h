// SPDX-License-Identifier: Apache-2.0
// The output of the workers: cuts bytes into lines, which are bounded in length, and keeps the last
// lines.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace c10dd::run {

inline constexpr std::size_t kLineBytes = 16 * 1024;  // a longer line is cut into pieces
inline constexpr std::size_t kLastLines = 20;
inline constexpr std::size_t kLastLineBytes = 512;

/// Returns a note as it is shown: printable, but for the ends of lines before an indented line. So
/// no name in a note can look like another note.
std::string note_text(std::string_view text);

/// Returns "1 node" or "2 nodes".
std::string plural(std::size_t count, const std::string& what);

/// Cuts bytes into lines without their line ends.
class Lines {
 public:
  using Sink = std::function<void(std::string_view line)>;

  explicit Lines(Sink sink) : sink_(std::move(sink)) {}

  void feed(std::string_view bytes);
  /// Passes the last line to the sink if no line end has followed that line.
  void finish();
  /// Returns the last line as far as it has come.
  std::string_view partial() const { return partial_; }

 private:
  Sink sink_;
  std::string partial_;
};

/// Keeps the newest kLastLines lines, each cut to kLastLineBytes.
class LastLines {
 public:
  void add(std::string_view line);
  bool empty() const { return lines_.empty(); }
  const std::deque<std::string>& lines() const { return lines_; }
  /// Returns as many of the newest lines as fit into `max_bytes`, indented, each with a line end.
  std::string text(std::size_t max_bytes, std::string_view indent) const;

 private:
  std::deque<std::string> lines_;
};

}  // namespace c10dd::run
