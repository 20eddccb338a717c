// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kPendingBytes = 64 * 1024;
constexpr int kColours[] = {36, 32, 33, 35, 34, 31};  // cyan, green, yellow, magenta, blue, red

bool wants_colour(int fd) {
  const char* no = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (no == nullptr || *no == '\0');
}

}  // namespace

std::string note_text(std::string_view text) {
  constexpr std::string_view kNextLine = "\n  ";
  std::string out;
  for (;;) {
    const std::size_t end = text.find(kNextLine);
    out += printable(text.substr(0, end), std::string::npos);
    if (end == std::string_view::npos) return out;
    out += kNextLine;
    text.remove_prefix(end + kNextLine.size());
  }
}

std::string plural(std::size_t count, const std::string& what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void Lines::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kLineBytes - partial_.size();
    if (end != std::string_view::npos && end <= room) {
      if (partial_.empty()) {
        sink_(bytes.substr(0, end));
      } else {
        partial_.append(bytes.substr(0, end));
        finish();
      }
      bytes.remove_prefix(end + 1);
      continue;
    }
    const std::size_t taken = std::min(room, bytes.size());
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    // Cuts a full line only after the next byte has come. If the next byte is a line end, the line
    // has exactly kLineBytes and needs no cut.
    if (partial_.size() == kLineBytes && !bytes.empty()) finish();
  }
}

void Lines::finish() {
  if (partial_.empty()) return;
  sink_(partial_);
  partial_.clear();
}

void LastLines::add(std::string_view line) {
  if (lines_.size() == kLastLines) lines_.pop_front();
  lines_.push_back(printable(line, kLastLineBytes));
}

std::string LastLines::text(std::size_t max_bytes, std::string_view indent) const {
  std::string text;
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    std::string one = std::string(indent) + *line + "\n";
    if (text.size() + one.size() > max_bytes) break;
    text.insert(0, one);
  }
  return text;
}

Console::Console(bool prefix, bool workers)
    : prefix_(prefix),
      workers_(workers),
      out_{STDOUT_FILENO, wants_colour(STDOUT_FILENO), {}},
      error_{STDERR_FILENO, wants_colour(STDERR_FILENO), {}} {}

void Console::line(int stream, std::uint32_t rank, std::string_view text) {
  if (!workers_) return;
  Stream& to = stream == STDERR_FILENO ? error_ : out_;
  if (prefix_) {
    const std::string name = format("[{}] ", rank);
    const int colour = kColours[rank % std::size(kColours)];
    to.pending += to.coloured ? format("\x1b[{}m{}\x1b[0m", colour, name) : name;
  }
  to.pending += text;
  to.pending += '\n';
  if (to.pending.size() >= kPendingBytes) write(to);
}

void Console::flush() {
  write(out_);
  write(error_);
}

void Console::note(std::string_view text) {
  write(out_);
  error_.pending += "c10drun: ";
  error_.pending += note_text(text);
  error_.pending += '\n';
  write(error_);
}

void Console::write(Stream& stream) {
  std::string_view rest = stream.pending;
  while (!rest.empty() && !stream.closed) {
    const ssize_t n = ::write(stream.fd, rest.data(), rest.size());
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {  // another process has made the terminal non-blocking
      pollfd room{stream.fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      stream.closed = true;
    }
  }
  stream.pending.clear();
}

}  // namespace c10dd::run
