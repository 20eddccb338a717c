// SPDX-License-Identifier: Apache-2.0
// Prints the lines of all workers on one console without mixing them, and the notes of the
// launcher. A console that nobody reads does not hold the launcher up: what does not fit the queue
// is dropped and counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/launcher/console_writer.h"

namespace c10dd::run {

/// The standard output and error of this process.
class Console {
 public:
  /// If `prefix` is set, each line begins with the worker's rank. If `workers` is not set, the
  /// lines of workers are not printed.
  Console(bool prefix, bool workers);

  /// Adds a line of a worker to a buffer. flush() prints the buffer.
  void line(int stream, std::uint32_t rank, std::string_view text);
  /// As line(), for the beginning of a line. Later calls for this worker and stream must give the
  /// whole line as far as it has come, which begins with what was given before.
  void part(int stream, std::uint32_t rank, std::string_view text);
  void flush();
  /// Prints a line of the launcher itself on standard error.
  void note(std::string_view text);
  /// Waits until all is printed, or until nobody has read anything for ConsoleWriter::kLastRead.
  void finish() { writer_.finish(); }

 private:
  struct Stream {
    ConsoleWriter::Stream to;
    bool coloured;
    std::string pending = {};
    /// The last line on the console is a part of a line of `rank`, of which `shown` bytes are
    /// there.
    bool is_open = false;
    std::uint32_t rank = 0;
    std::size_t shown = 0;
  };
  Stream& stream_of(int number) { return number == 2 ? error_ : out_; }
  void close_line(Stream& stream);
  void begin_line(Stream& stream, std::uint32_t rank) const;
  void write(Stream& stream);

  bool prefix_;
  bool workers_;
  Stream out_;
  Stream error_;
  ConsoleWriter writer_;
};

}  // namespace c10dd::run
