// SPDX-License-Identifier: Apache-2.0
#include "client/run/verdict.h"

#include <charconv>

#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kHeadBytes = 512;
constexpr std::string_view kMark = " has failed: exit code ";
constexpr std::string_view kLast = "; last lines: ";
constexpr std::string_view kBetween = " | ";

}  // namespace

std::string Verdict::cause() const {
  const std::string first = "exit code " + std::to_string(exit_code) + ": " + head;
  std::string lines;
  for (auto line = last.rbegin(); line != last.rend(); ++line) {
    const std::size_t more = line->size() + kBetween.size();
    if (first.size() + kLast.size() + lines.size() + more > kCauseBytes) break;
    lines.insert(0, lines.empty() ? *line : *line + std::string(kBetween));
  }
  return lines.empty() ? first : first + std::string(kLast) + lines;
}

Verdict make_verdict(const Casualty& casualty, const std::string& host) {
  Verdict verdict;
  verdict.exit_code = casualty.exit.shell_code();
  verdict.head = "rank " + std::to_string(casualty.rank) + " on " + host + " (pid " +
                 std::to_string(casualty.pid) + ") " + casualty.exit.text();
  if (!casualty.message.empty()) verdict.head += ": " + casualty.message;
  verdict.head = printable(verdict.head, kHeadBytes);
  for (const std::string& line : casualty.last.lines()) {
    if (!line.empty()) verdict.last.push_back(line);
  }
  return verdict;
}

std::optional<Verdict> read_verdict(std::string_view reason) {
  const std::size_t mark = reason.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  std::string_view rest = reason.substr(mark + kMark.size());
  Verdict verdict;
  const char* end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, verdict.exit_code);
  if (error != std::errc() || verdict.exit_code < 1 || verdict.exit_code > 255) {
    return std::nullopt;
  }
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  if (!rest.starts_with(": ")) return std::nullopt;
  rest.remove_prefix(2);
  const std::size_t lines = rest.find(kLast);
  verdict.head = rest.substr(0, lines);
  if (lines == std::string_view::npos) return verdict;
  rest.remove_prefix(lines + kLast.size());
  for (;;) {
    const std::size_t next = rest.find(kBetween);
    verdict.last.emplace_back(rest.substr(0, next));
    if (next == std::string_view::npos) return verdict;
    rest.remove_prefix(next + kBetween.size());
  }
}

}  // namespace c10dd::run
