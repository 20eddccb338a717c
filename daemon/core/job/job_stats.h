// SPDX-License-Identifier: Apache-2.0
// Numbers of one job, for metrics and status pages.
#pragma once

#include <cstddef>

namespace c10dd::core {

struct JobStats {
  std::size_t keys = 0;
  std::size_t bytes = 0;
  std::size_t queue_items = 0;
  std::size_t queue_bytes = 0;
  std::size_t history_bytes = 0;
  std::size_t waiters = 0;  ///< blocked requests; without those of sessions that may only read
  std::size_t barriers_pending = 0;
  std::size_t sessions = 0;         ///< connected; without those that may only read
  std::size_t sessions_known = 0;   ///< connected, or may come back; without those, too
  std::size_t members = 0;          ///< alive members; newest generations only
  std::size_t members_missing = 0;  ///< members that left or were lost; newest generations only
  std::size_t collectives_in_flight = 0;  ///< see CollectiveLedger::in_flight()

  /// Returns the memory of what is stored. An entry of a table costs more than its bytes: about
  /// kEntry, by the sizes of its nodes and of the allocator's classes.
  std::size_t memory() const {
    constexpr std::size_t kEntry = 192;
    return bytes + queue_bytes + history_bytes + (keys + queue_items) * kEntry;
  }
};

}  // namespace c10dd::core
