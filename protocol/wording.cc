// SPDX-License-Identifier: Apache-2.0
#include "protocol/wording.h"

#include <algorithm>
#include <cstdio>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd {
namespace {

constexpr std::size_t kKeysNamed = 8;
constexpr std::size_t kKeyTextBytes = 80;
constexpr std::size_t kHostsNamed = 3;   // with one another
constexpr std::size_t kRangesNamed = 8;  // of ranks that are named together

bool is_of_plain_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:/@+-[],").find(c) != std::string_view::npos;
}

std::string share(const std::vector<Bytes>& missing, std::size_t asked) {
  return format("{} of {} keys", missing.size(), asked);
}

std::string names(const std::vector<Bytes>& keys) {
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kKeysNamed); ++i) {
    text += (i == 0 ? "" : ", ") + printable(keys[i], kKeyTextBytes);
  }
  return text + (keys.size() > kKeysNamed ? ", ..." : "");
}

}  // namespace

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text, std::string::npos)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string word_or_quoted(std::string_view name) {
  const bool plain = !name.empty() && std::ranges::all_of(name, is_of_plain_word);
  return plain ? std::string(name) : quoted_text(name);
}

std::string close_to_others(std::string_view path) {
  return format(
      "run chmod o-rwx {}; if it is of a Kubernetes Secret, give the volume defaultMode: 0440, and "
      "the Pod's securityContext fsGroup",
      path);
}

std::string process_text(std::string_view host, std::uint64_t pid) {
  std::string text = printable_name(host);
  return pid == 0 ? text : text + format(" (pid {})", pid);
}

std::string rank_text(Rank rank, std::string_view host, std::uint64_t pid) {
  return host.empty() ? format("rank {}", rank)
                      : format("rank {} on {}", rank, process_text(host, pid));
}

std::string fold(std::span<const Rank> ranks, std::size_t most) {
  std::string text = "[";
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size(); ++ranges) {
    if (ranges == most) {
      text += ",...";
      break;
    }
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges > 0) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text + "]";
}

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string human(Duration duration) {
  const double seconds = seconds_of(duration);
  char text[32];
  if (seconds > 0 && seconds < 0.001) return "less than 1 ms";
  if (seconds >= 600) {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof text, seconds >= 10 ? "%.0f s" : "%.3g s", seconds);
  }
  return text;
}

std::string name_of_ranks(std::span<const RankFacts* const> ranks, bool hosts) {
  std::vector<Rank> known;
  std::vector<std::string_view> on;
  std::size_t unknown = 0;
  for (const RankFacts* one : ranks) {
    if (one->rank) known.push_back(*one->rank);
    if (!one->rank) ++unknown;
    if (hosts && !one->host.empty() && (on.empty() || on.back() != one->host)) {
      on.push_back(one->host);
    }
  }
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::ranges::sort(on);
  on.erase(std::unique(on.begin(), on.end()), on.end());
  std::string text;
  if (!known.empty()) {
    text =
        known.size() == 1 ? format("rank {}", known.front()) : "ranks " + fold(known, kRangesNamed);
  }
  if (unknown > 0) {
    text += text.empty() ? "" : " and ";
    text += unknown == 1 ? std::string("a process") : format("{} processes", unknown);
  }
  const std::size_t shown = std::min(on.size(), kHostsNamed);
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? " on " : ", ") + printable_name(on[i]);
  }
  if (on.size() > shown) {
    text += format(" and {} more host{}", on.size() - shown, on.size() - shown == 1 ? "" : "s");
  }
  const bool with_pid = hosts && ranks.size() == 1 && ranks.front()->pid != 0;
  return with_pid ? text + format(" (pid {})", ranks.front()->pid) : text;
}

std::string sentence(const MissingRank& missing) {
  using Cause = MissingRank::Cause;
  const std::string rank = format("rank {}", missing.rank);
  if (missing.cause == Cause::never_connected) return rank + " never connected";
  if (missing.cause == Cause::absent && missing.host.empty()) {
    return rank + " has arrived, but has not reconnected since the daemon loaded the job";
  }
  const std::string who = rank_text(missing.rank, missing.host, missing.pid);
  const std::string doing = printable(missing.doing, limits::kReasonBytes);
  if (missing.cause == Cause::dead) return who + " is gone: " + doing;
  if (missing.cause == Cause::left) return who + " has left: " + doing;
  std::string state = " is connected but has not arrived";
  if (missing.cause == Cause::disconnected) state = " is disconnected";
  if (missing.cause == Cause::absent) state = " has arrived, but is disconnected";
  if (missing.cause == Cause::silent) state = " is connected but silent";
  if (missing.cause == Cause::elsewhere) state = " waits elsewhere, at " + doing;
  if (missing.cause != Cause::elsewhere && !doing.empty()) state += ", in " + doing;
  return who + state + ", last heard " + human(missing.silent_for) + " ago";
}

Failure missing_keys(const std::vector<Bytes>& missing, std::size_t asked, Duration timeout) {
  return failure(Code::timed_out, "timed out after {}: {} missing: {}", human(timeout),
                 share(missing, asked), names(missing));
}

Failure keys_not_found(const std::vector<Bytes>& missing, std::size_t asked) {
  return failure(Code::not_found, "{} not found: {}", share(missing, asked), names(missing));
}

Failure not_a_counter(std::string_view key, std::size_t value_bytes) {
  return failure(Code::wrong_type,
                 "add: the value of key \"{}\" is not a decimal integer ({} bytes)",
                 printable(key, kKeyTextBytes), value_bytes);
}

}  // namespace c10dd
