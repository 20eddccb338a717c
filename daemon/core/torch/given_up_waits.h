// SPDX-License-Identifier: Apache-2.0
// Reports waits that clients of TCPStore have given up after a long time. Their protocol tells them
// nothing about what was missing, so the log has to tell it. Clients that give up the same key at
// about the same time are reported together, because all ranks of a launch do so.
#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "daemon/core/effects.h"
#include "daemon/core/pending.h"
#include "daemon/core/sessions/sessions.h"

namespace c10dd::core {

class GivenUpWaits {
 public:
  static constexpr Duration kLong = std::chrono::seconds(5);  ///< a shorter wait is not reported
  /// How long after a report other waits for the same key are only counted.
  static constexpr Duration kFolded = std::chrono::seconds(10);
  static constexpr std::size_t kKeys = 64;  ///< further keys are reported each time

  /// Returns the event to report, unless the wait was short, its session is without Hello::c10d, or
  /// a wait for the same key has just been reported. `waiter` was removed, and some of its tokens
  /// have not fired. `cause` is cancelled or disconnected. `others` is the number of other requests
  /// that wait for the same key or number.
  std::optional<WaitGivenUp> note(TimePoint now, const Pending::Waiter& waiter,
                                  const Session& session, std::string_view cause,
                                  std::size_t others);

 private:
  struct Reported {
    TimePoint at;
    std::size_t folded = 0;  // waits that were given up since, and not reported
  };

  std::map<Bytes, Reported> reported_;  // by the first token of the wait
};

}  // namespace c10dd::core
