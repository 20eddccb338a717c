// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/failure_report.h"

#include <algorithm>
#include <charconv>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kHeadBytes = 512;

// When a worker has failed, the reason that its group gives contains these texts. Example:
// "rank 0 on host-a (pid 9) has failed: exit code 1: rank 3 on ...; last lines: a | b". The daemon
// writes the text up to "has failed: ". The agent of the failed worker writes the rest.
constexpr std::string_view kFailedWith = " has failed: exit code ";
constexpr std::string_view kLast = "; last lines: ";
constexpr std::string_view kBetween = " | ";
constexpr std::string_view kMember = "rank ";

bool take_number(std::string_view& rest, std::string_view& number) {
  number = rest.substr(0, rest.find_first_not_of("0123456789"));
  rest.remove_prefix(number.size());
  return !number.empty();
}

/// Removes the text up to `end`, and `end` itself, from `rest`, and stores the text in `before`. If
/// `end` is missing, removes nothing and returns false.
bool take_until(std::string_view& rest, std::string_view end, std::string_view& before) {
  const std::size_t at = rest.find(end);
  if (at == std::string_view::npos) return false;
  before = rest.substr(0, at);
  rest.remove_prefix(at + end.size());
  return true;
}

/// Removes "N on HOST (pid P)" from the start of `rest` and returns "node N (HOST, agent pid P)".
/// If `rest` starts with anything else, removes nothing and returns an empty text.
std::string take_member(std::string_view& rest) {
  std::string_view left = rest, rank, host, pid;
  if (!take_number(left, rank) || !left.starts_with(" on ")) return {};
  left.remove_prefix(std::string_view(" on ").size());
  if (!take_until(left, " (pid ", host) || !take_number(left, pid) || !left.starts_with(')')) {
    return {};
  }
  rest = left.substr(1);
  return format("node {} ({}, agent pid {})", rank, host, pid);
}

}  // namespace

std::string FailureReport::cause() const {
  const std::string first = format("exit code {}: {}", exit_code, head);
  std::string lines;
  for (auto line = last.rbegin(); line != last.rend(); ++line) {
    const std::size_t more = line->size() + kBetween.size();
    if (first.size() + kLast.size() + lines.size() + more > kCauseBytes) break;
    lines.insert(0, lines.empty() ? *line : *line + std::string(kBetween));
  }
  return lines.empty() ? first : first + std::string(kLast) + lines;
}

std::string FailureReport::text() const {
  return reporter.empty() ? head : reporter + " reports: " + head;
}

FailureReport make_failure_report(const FailedWorker& failed, const std::string& host) {
  FailureReport report;
  report.exit_code = failed.exit.shell_code();
  report.head =
      format("rank {} on {} (pid {}) {}", failed.rank, host, failed.pid, failed.exit.text());
  if (!failed.message.empty()) report.head += ": " + failed.message;
  report.head = printable(report.head, kHeadBytes);
  for (const std::string& line : failed.last.lines()) {
    if (!line.empty()) report.last.push_back(line);
  }
  return report;
}

std::optional<FailureReport> read_failure_report(std::string_view reason) {
  const std::size_t at = reason.find(kFailedWith);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = reason.substr(at + kFailedWith.size());
  FailureReport report;
  if (const std::size_t member = reason.rfind(kMember, at); member != std::string_view::npos) {
    std::string_view from = reason.substr(member + kMember.size());
    report.reporter = take_member(from);
  }
  const char* end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, report.exit_code);
  if (error != std::errc() || report.exit_code < 1 || report.exit_code > 255) {
    return std::nullopt;
  }
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  if (!rest.starts_with(": ")) return std::nullopt;
  rest.remove_prefix(2);
  const std::size_t lines = rest.find(kLast);
  report.head = rest.substr(0, lines);
  if (lines == std::string_view::npos) return report;
  rest.remove_prefix(lines + kLast.size());
  for (;;) {
    const std::size_t next = rest.find(kBetween);
    report.last.emplace_back(rest.substr(0, next));
    if (next == std::string_view::npos) return report;
    rest.remove_prefix(next + kBetween.size());
  }
}

std::string of_nodes(std::string_view text) {
  // Does not convert the text after kFailedWith, because the ranks there are ranks of workers.
  const std::size_t cause = std::min(text.find(kFailedWith), text.size());
  std::string out;
  for (std::string_view before, rest = text.substr(0, cause);;) {
    if (!take_until(rest, kMember, before)) return out.append(rest).append(text.substr(cause));
    out.append(before);
    const std::string member = take_member(rest);
    out.append(member.empty() ? kMember : std::string_view(member));
  }
}

}  // namespace c10dd::run
