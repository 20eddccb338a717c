// SPDX-License-Identifier: Apache-2.0
// How rows keep what is left of a timer, so that the time that has passed counts over a restart: of
// the last call and the notices of a group, of the time of a member or session to return. All other
// durations in rows (times to live, expiries) start in full. A row has what was left when it was
// written (`noted`); 0: nothing was noted, and the timer starts in full. While a timer runs, its row
// is written now and then. So a timer ends, however often the daemon is restarted, if the daemon
// mostly serves for longer than limits::kTimeLeftMin.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "protocol/limits.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Returns how much of a timer of length `full` passes between two notes.
inline Duration note_step(Duration full) {
  return std::clamp<Duration>(full / 16, std::chrono::seconds(1), std::chrono::seconds(10));
}

/// Returns what is left of a timer when its job is loaded.
inline Duration left_after_load(Duration noted, Duration full) {
  if (noted == Duration::zero()) return full;
  return std::clamp<Duration>(noted, std::min<Duration>(limits::kTimeLeftMin, full), full);
}

/// Returns what the row must have now; nothing if it may stay as it is. More than was noted is left
/// only if a new timer runs.
inline std::optional<Duration> to_note(Duration noted, Duration full, Duration left) {
  const Duration value = std::max<Duration>(left, limits::kTimeLeftMin);
  if (noted != Duration::zero() && value > noted) return value;
  const Duration before = noted == Duration::zero() ? full : noted;
  return before - value >= note_step(full) ? std::optional(value) : std::nullopt;
}

/// Returns when the row of a timer must be written next; nothing if it may stay as it is.
inline std::optional<TimePoint> next_note(Duration noted, Duration full, TimePoint ends) {
  const Duration next = (noted == Duration::zero() ? full : noted) - note_step(full);
  return next >= limits::kTimeLeftMin ? std::optional(ends - next) : std::nullopt;
}

}  // namespace c10dd::core
