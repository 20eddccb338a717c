// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/console.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "client/launcher/output.h"
#include "protocol/format.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kPendingBytes = 64 * 1024;
constexpr int kColours[] = {36, 32, 33, 35, 34, 31};  // cyan, green, yellow, magenta, blue, red

bool wants_colour(int fd) {
  const char* no = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (no == nullptr || *no == '\0');
}

}  // namespace

Console::Console(bool prefix, bool workers)
    : prefix_(prefix),
      workers_(workers),
      out_{ConsoleWriter::Stream::out, wants_colour(STDOUT_FILENO)},
      error_{ConsoleWriter::Stream::error, wants_colour(STDERR_FILENO)} {}

void Console::begin_line(Stream& stream, std::uint32_t rank) const {
  if (!prefix_) return;
  const std::string name = format("[{}] ", rank);
  const int colour = kColours[rank % std::size(kColours)];
  stream.pending += stream.coloured ? format("\x1b[{}m{}\x1b[0m", colour, name) : name;
}

/// Ends the part of a line that is the last one on the console.
void Console::close_line(Stream& stream) {
  if (!std::exchange(stream.is_open, false)) return;
  stream.pending += '\n';
}

void Console::line(int number, std::uint32_t rank, std::string_view text) {
  if (!workers_) return;
  part(number, rank, text);
  Stream& stream = stream_of(number);
  close_line(stream);
  if (stream.pending.size() >= kPendingBytes) write(stream);
}

void Console::part(int number, std::uint32_t rank, std::string_view text) {
  if (!workers_) return;
  Stream& stream = stream_of(number);
  if (stream.is_open && stream.rank == rank) {
    stream.pending += text.substr(std::min(stream.shown, text.size()));
  } else {
    close_line(stream);
    begin_line(stream, rank);
    stream.pending += text;
  }
  stream.is_open = true;
  stream.rank = rank;
  stream.shown = text.size();
}

void Console::flush() {
  write(out_);
  write(error_);
}

void Console::note(std::string_view text) {
  write(out_);
  close_line(error_);
  error_.pending += "c10drun: ";
  error_.pending += note_text(text);
  error_.pending += '\n';
  write(error_);
}

void Console::write(Stream& stream) {
  if (!stream.pending.empty()) writer_.put(stream.to, std::exchange(stream.pending, {}));
}

}  // namespace c10dd::run
