// SPDX-License-Identifier: Apache-2.0
// Writes the events of jobs to the log. deploy/README.md lists the log lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/effects.h"
#include "daemon/shard/diagnosis_pace.h"
#include "daemon/shard/log_line.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Allows at most kLines log lines per second. Used for lines that clients can cause in any number.
class LogPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned kLines = 20;  ///< per second

  /// Decides whether the next line may be written, and counts the line as written or skipped.
  /// Returns std::nullopt if the line must be skipped. Otherwise returns the number of lines that
  /// were skipped since the last written line.
  std::optional<std::uint64_t> next(Time now);

 private:
  std::optional<Time> begin_;  ///< of the current second
  unsigned lines_ = 0;         ///< written in the current second
  std::uint64_t skipped_ = 0;  ///< lines skipped since the last written line
};

/// Writes the log of one shard's jobs.
/// All functions are called on the shard's loop.
class EventLog {
 public:
  void write(const std::string& job, const std::string& run, const core::Event& event);

 private:
  void write_refusal(const std::string& job, const core::RankRefused& refused);

  void write_given_up(const std::string& job, const std::string& run,
                      const core::WaitGivenUp& wait);

  void write_diagnosis(const std::string& job, const std::string& run,
                       const core::Diagnosed& diagnosed);
  void write_end_of_diagnosis(const std::string& job, const std::string& run,
                              const core::DiagnosisEnded& ended);

  DiagnosisPace diagnoses_;
  LogPace refusals_;
  LogPace given_up_;
};

/// Returns how many lines about runs were skipped before the next one, which may be written.
/// Returns nothing if it must be skipped. Of each level, each loop writes LogPace::kLines lines a
/// second.
std::optional<std::uint64_t> pace_run_event(LogPace::Time now, LogLevel level);

/// Logs an event of a run that lives in memory, which clients can cause in any number; see
/// pace_run_event(). The line event=run_events_skipped counts the others, before the next one that
/// is written.
template <class... T>
void log_run_event(LogPace::Time now, LogLevel level,
                   fmt::format_string<detail::LogValue<T>...> text, const T&... values) {
  const std::optional<std::uint64_t> skipped = pace_run_event(now, level);
  if (!skipped) return;
  if (*skipped > 0) log_as(level, "event=run_events_skipped count={}", *skipped);
  log_as<T...>(level, text, values...);
}

/// Logs the result of a checkpoint: its size, or the reason why it was not written.
/// Blocks while it reads the sizes of the files. Must not be called on a loop's thread.
void log_checkpoint(const std::string& path, const Result<void>& done);

}  // namespace c10dd::daemon
