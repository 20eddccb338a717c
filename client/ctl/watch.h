// SPDX-License-Identifier: Apache-2.0
// c10ddctl diagnose --watch: asks again and again, and writes a line for each change. While no
// daemon answers, it says so once and goes on.
#pragma once

#include <functional>
#include <string>

#include "client/ctl/arguments.h"
#include "client/ctl/diagnose.h"

namespace c10dd::ctl {

/// What a watch needs from its process.
struct WatchHooks {
  /// Writes a printable line to standard output. Returns false if nobody reads it any more.
  std::function<bool(const std::string& line)> print;
  /// Writes a printable line to standard error.
  std::function<void(const std::string& line)> warn;
  std::function<WallTime()> now;
  /// Gets what diagnose() would have returned for the last reply of a daemon, before the lines
  /// about that reply are written. A signal ends the process with it.
  std::function<void(int code)> set_code;
  /// Waits until it is time to ask again. Returns false to end the watch.
  std::function<bool()> pause;
};

/// Watches the runs that the command line selects, also while there is none yet. Ends at a refusal
/// which another try would not change. Returns the last code that set_code() got.
int watch(const Arguments& of, const WatchHooks& hooks);

/// Returns a time in UTC as RFC 3339 writes it: "2027-01-15T08:00:00Z".
std::string time_text(WallTime time);

}  // namespace c10dd::ctl
