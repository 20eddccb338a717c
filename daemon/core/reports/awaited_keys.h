// SPDX-License-Identifier: Apache-2.0
// The keys, counters and queues for which requests of a job wait.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/pending.h"
#include "protocol/types.h"

namespace c10dd::core {

/// A key for which requests wait.
struct AwaitedKey {
  Bytes key;
  std::optional<std::int64_t> at_least;  ///< they wait for this number; nothing: for a value
  bool item = false;                     ///< they wait for an item of a queue
  /// Those that wait, in order of their arrival. Never null. Valid until Pending changes.
  const std::set<Pending::Id>* waiters = nullptr;
};

/// Returns the keys that are awaited, in order of keys and numbers. The cost depends on their
/// number, and not on the number of requests that wait for each.
std::vector<AwaitedKey> awaited_keys(const Pending& pending);

}  // namespace c10dd::core
