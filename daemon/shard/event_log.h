// SPDX-License-Identifier: Apache-2.0
// The log lines of what a job's effects tell. deploy/README.md lists them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/effects.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Lets some lines a second through, for what clients can cause as often as they like.
class LogPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned kLines = 20;  ///< a second

  /// How many lines were left out before this one; nothing if this one is to be left out, too.
  std::optional<std::uint64_t> next(Time now);

 private:
  std::optional<Time> begin_;  ///< of the second
  unsigned lines_ = 0;         ///< in it
  std::uint64_t skipped_ = 0;
};

/// Of one shard.
class EventLog {
 public:
  void write(const std::string& job, const core::Event& event);

 private:
  void write_refusal(const std::string& job, const core::ClaimRefused& refused);

  LogPace refusals_;
};

/// A checkpoint was written, or not. It looks at the files: not for a loop's thread.
void log_checkpoint(const std::string& path, const Result<void>& done);

}  // namespace c10dd::daemon
