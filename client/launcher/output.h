// SPDX-License-Identifier: Apache-2.0
// What workers print on its way to people: bytes to lines, the last lines, and the console where
// the lines of all workers come together whole. Lines are bounded; nothing is lost but what a
// closed console does not take.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace c10dd::run {

inline constexpr std::size_t kLineBytes = 16 * 1024;  // a longer line is cut into such pieces
inline constexpr std::size_t kLastLines = 20;
inline constexpr std::size_t kLastLineBytes = 512;

/// "1 node", "2 nodes".
std::string plural(std::size_t count, const std::string& what);

/// Cuts bytes into lines, without their ends.
class Lines {
 public:
  using Sink = std::function<void(std::string_view line)>;

  explicit Lines(Sink sink) : sink_(std::move(sink)) {}

  void feed(std::string_view bytes);
  /// The last line, if it had no end.
  void finish();

 private:
  Sink sink_;
  std::string partial_;
};

/// The newest lines, each cut to kLastLineBytes.
class LastLines {
 public:
  void add(std::string_view line);
  bool empty() const { return lines_.empty(); }
  const std::deque<std::string>& lines() const { return lines_; }
  /// As many of the newest as fit, each with its end, indented.
  std::string text(std::size_t max_bytes, std::string_view indent) const;

 private:
  std::deque<std::string> lines_;
};

/// The two standard streams of this process.
class Console {
 public:
  Console(bool prefix, bool workers);

  /// Adds a line of a worker; flush() writes what was added.
  void line(int stream, std::uint32_t rank, std::string_view text);
  void flush();
  /// A line of our own, on standard error.
  void note(std::string_view text);

 private:
  struct Stream {
    int fd;
    bool coloured;
    std::string pending;
    bool closed = false;  ///< whoever read it is gone: not worth to die for
  };
  static void write(Stream& stream);

  bool prefix_;
  bool workers_;
  Stream out_;
  Stream error_;
};

}  // namespace c10dd::run
