// SPDX-License-Identifier: Apache-2.0
// The keys, counters and queues for which requests of a job wait.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/core/pending.h"
#include "protocol/types.h"

namespace c10dd::core {

/// A key for which requests wait.
struct AwaitedKey {
  std::string_view key;                  ///< valid until Pending changes
  std::optional<std::int64_t> at_least;  ///< they wait for this number; nothing: for a value
  bool item = false;                     ///< they wait for an item of a queue
  /// Those that wait, in order of their arrival. Never null. Valid until Pending changes.
  const std::set<Pending::Id>* waiters = nullptr;
};

struct AwaitedKeys {
  /// How many tokens of blocked requests are looked at, beginning with the oldest request.
  static constexpr std::size_t kLooked = 16'384;

  std::vector<AwaitedKey> keys;  ///< in order of keys and numbers
  bool complete = true;          ///< whether all blocked requests were looked at
};

/// Returns the keys that are awaited.
AwaitedKeys awaited_keys(const Pending& pending);

}  // namespace c10dd::core
