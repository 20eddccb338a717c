// SPDX-License-Identifier: Apache-2.0
// Log lines that clients can cause. Their number is limited for each cause: the principal of the
// client, or its address where nobody is authenticated. So no client fills the disk, or hides the
// lines of others. Lines that are left out are counted, and the next line says how many they were.
// The only place that decides this; tests/tidy.py has the list of the lines that no client can
// cause.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/shard/log_line.h"
#include "protocol/types.h"

namespace c10dd::daemon {

/// Decides which lines are written. Pure, but for the lock. Thread-safe.
class LogPaces {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// `burst` lines at once, then one in each interval.
  struct Rate {
    unsigned burst;
    Duration interval;
  };
  static constexpr Rate kOfKind{20, std::chrono::milliseconds(200)};  ///< of one cause and event
  static constexpr Rate kOfCause{60, std::chrono::milliseconds(50)};  ///< of all its events
  static constexpr Rate kOfAll{300, std::chrono::milliseconds(10)};   ///< of all causes
  static constexpr std::size_t kCauses = 1'024;  ///< further ones have one pace together
  static constexpr Duration kForgotten = std::chrono::minutes(1);

  /// How many lines were left out since the last one that was written.
  struct Skipped {
    std::uint64_t alike = 0;   ///< of the same cause and event
    std::uint64_t others = 0;  ///< of causes that have written none for kForgotten
  };

  /// Decides about a line, and counts it. Returns nothing if it is left out.
  std::optional<Skipped> next(std::string_view cause, std::string_view event, Time now);
  /// Forgets everything.
  void clear();
  /// Returns how many causes are remembered.
  std::size_t causes() const;

 private:
  /// The time at which a rate has its whole burst again.
  struct Bucket {
    Time full;

    bool has(const Rate& rate, Time now) const {
      return full - now <= rate.interval * (rate.burst - 1);
    }
    void take(const Rate& rate, Time now) { full = std::max(full, now) + rate.interval; }
  };
  struct Event {
    Bucket bucket;
    std::uint64_t skipped = 0;
  };
  struct Cause {
    Bucket bucket;
    Time asked;
    std::map<std::string, Event, std::less<>> events;
  };

  Cause& cause_of(std::string_view name, Time now);
  void forget(Time now);

  mutable std::mutex mutex_;
  std::map<std::string, Cause, std::less<>> causes_;
  Bucket all_;
  Time forget_at_;
  std::uint64_t forgotten_ = 0;  // lines that were left out, of causes that were forgotten
};

/// Returns the paces of this process.
LogPaces& log_paces();

namespace detail {

/// Returns the name of the event with which a text begins, and its level.
std::string event_of(LogLevel level, std::string_view text);
/// Writes a line, with what was left out before.
void write_caused(LogLevel level, std::string line, const LogPaces::Skipped& skipped);

}  // namespace detail

/// Writes a line that a client can cause, unless too many were written; see log_as(). `cause` is
/// the client's principal, without one its address; empty: all clients together. The line must
/// begin with event=NAME.
template <class... T>
void log_caused(std::string_view cause, LogLevel level,
                fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  const fmt::string_view line = text;
  const auto skipped = log_paces().next(cause, detail::event_of(level, {line.data(), line.size()}),
                                        std::chrono::steady_clock::now());
  if (!skipped) return;
  detail::write_caused(level, c10dd::format(text, detail::log_value(values)...), *skipped);
}

}  // namespace c10dd::daemon
