// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/output.h"

#include <algorithm>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::run {

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

}  // namespace c10dd::run
