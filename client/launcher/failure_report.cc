// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/failure_report.h"

#include <algorithm>
#include <charconv>

#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kHeadBytes = 512;
constexpr std::string_view kMark = " has failed: exit code ";
constexpr std::string_view kLast = "; last lines: ";
constexpr std::string_view kBetween = " | ";
constexpr std::string_view kMember = "rank ";

bool take_number(std::string_view& rest, std::string_view& number) {
  number = rest.substr(0, rest.find_first_not_of("0123456789"));
  rest.remove_prefix(number.size());
  return !number.empty();
}

/// Takes what is before `mark`, and the mark.
bool take_until(std::string_view& rest, std::string_view mark, std::string_view& before) {
  const std::size_t at = rest.find(mark);
  if (at == std::string_view::npos) return false;
  before = rest.substr(0, at);
  rest.remove_prefix(at + mark.size());
  return true;
}

/// Takes "N on HOST (pid P)"; empty, and nothing taken, if it is not that.
std::string take_member(std::string_view& rest) {
  std::string_view left = rest, rank, host, pid;
  if (!take_number(left, rank) || !left.starts_with(" on ")) return {};
  left.remove_prefix(std::string_view(" on ").size());
  if (!take_until(left, " (pid ", host) || !take_number(left, pid) || !left.starts_with(')')) {
    return {};
  }
  rest = left.substr(1);
  return "node " + std::string(rank) + " (" + std::string(host) + ", agent pid " +
         std::string(pid) + ")";
}

}  // namespace

std::string FailureReport::cause() const {
  const std::string first = "exit code " + std::to_string(exit_code) + ": " + head;
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
  report.head = "rank " + std::to_string(failed.rank) + " on " + host + " (pid " +
                std::to_string(failed.pid) + ") " + failed.exit.text();
  if (!failed.message.empty()) report.head += ": " + failed.message;
  report.head = printable(report.head, kHeadBytes);
  for (const std::string& line : failed.last.lines()) {
    if (!line.empty()) report.last.push_back(line);
  }
  return report;
}

std::optional<FailureReport> read_verdict(std::string_view reason) {
  const std::size_t mark = reason.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  std::string_view rest = reason.substr(mark + kMark.size());
  FailureReport report;
  if (const std::size_t member = reason.rfind(kMember, mark); member != std::string_view::npos) {
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
  const std::size_t cause = std::min(text.find(kMark), text.size());  // what follows is of a worker
  std::string out;
  for (std::string_view before, rest = text.substr(0, cause);;) {
    if (!take_until(rest, kMember, before)) return out.append(rest).append(text.substr(cause));
    out.append(before);
    const std::string member = take_member(rest);
    out.append(member.empty() ? kMember : std::string_view(member));
  }
}

}  // namespace c10dd::run
