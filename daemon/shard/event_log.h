// SPDX-License-Identifier: Apache-2.0
// Writes the events of jobs to the log. deploy/README.md lists the log lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/effects.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Limits the log lines that clients can cause at will to kLines per second.
class LogPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned kLines = 20;  ///< per second

  /// If the next line may be written, returns how many lines were skipped before it. If the line
  /// must be skipped, too, returns nothing.
  std::optional<std::uint64_t> next(Time now);

 private:
  std::optional<Time> begin_;  ///< of the current second
  unsigned lines_ = 0;         ///< written in the current second
  std::uint64_t skipped_ = 0;  ///< since the last line that was written
};

/// The log of one shard's jobs.
/// Called on the shard's loop.
class EventLog {
 public:
  void write(const std::string& job, const core::Event& event);

 private:
  void write_refusal(const std::string& job, const core::RankRefused& refused);

  LogPace refusals_;
};

/// Logs that a checkpoint was written, with its size, or the reason why it was not written.
/// Blocks while it reads the sizes of the files, so it must not be called on a loop's thread.
void log_checkpoint(const std::string& path, const Result<void>& done);

}  // namespace c10dd::daemon
