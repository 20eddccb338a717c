// SPDX-License-Identifier: Apache-2.0
// The keys, counters and queues for which requests of a job wait.
#pragma once

#include <cstdint>
#include <memory>
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
  std::shared_ptr<const std::set<Pending::Id>> own = nullptr;  ///< keeps `waiters`, if not Pending
};

/// awaited_keys() looks at no more keys of blocked requests than this.
inline constexpr std::size_t kAwaitedLooked = 16'384;

/// Returns the awaited keys, in order of keys and numbers. Looks at the oldest requests first, and
/// leaves out those of sessions that may only read: nobody else is held up by them.
std::vector<AwaitedKey> awaited_keys(const Pending& pending);

}  // namespace c10dd::core
