// SPDX-License-Identifier: Apache-2.0
// Limits of one job. A request that would exceed a limit changes nothing and fails with
// quota_exceeded. The error text names the value and the limit. Only the limits of the history
// and of outcomes refuse no request: beyond them, the oldest ones are dropped.
#pragma once

#include "protocol/limits.h"
#include "protocol/types.h"

namespace c10dd::core {

struct Quotas {
  std::size_t keys = limits::kKeysPerJob;
  std::size_t bytes = limits::kBytesPerJob;  ///< of keys and their values
  std::size_t sessions = limits::kSessionsPerJob;
  std::size_t waits = limits::kWaitsPerJob;  ///< blocked requests
  std::size_t waited_keys = limits::kWaitedKeysPerJob;
  std::size_t queue_items = limits::kQueueItemsPerJob;
  std::size_t queue_bytes = limits::kQueueBytesPerJob;
  std::size_t history_changes = limits::kHistoryChanges;
  std::size_t history_bytes = limits::kHistoryBytes;
  std::size_t outcome_bytes = limits::kOutcomeBytesKept;  ///< of barriers and exchanges
  Duration session_expiry = limits::kSessionExpiry;  ///< for sessions that do not ask for an expiry
  /// If another daemon may have served the job before: after a load, members have this time and
  /// their ttl to come back, because they may take each sign of life from any daemon for one of the
  /// owner for so long. 0: they have limits::kRestartGrace.
  Duration takeover_grace{0};
};

}  // namespace c10dd::core
