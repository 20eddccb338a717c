// SPDX-License-Identifier: Apache-2.0
// Where the epochs of a job began: each claim of a job begins one, and tells how much of the job
// the engine had then.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "protocol/types.h"

namespace c10dd {

/// The beginning of an epoch.
struct EpochStart {
  Epoch epoch = 0;
  Revision revision = 0;  ///< of the job, when the epoch began

  bool operator==(const EpochStart&) const = default;
};

/// Number of beginnings that an engine keeps for a job, the newest ones.
inline constexpr std::size_t kEpochStarts = 32;

/// Returns the revision at which the first epoch after `seen` began: a client that has seen `seen`
/// as the newest epoch knows no revision above it, unless changes were lost. `starts` is in the
/// order of epochs and not empty; if it does not reach back to `seen`, the oldest one that it has
/// counts. If no epoch is newer than `seen`, returns nothing.
inline std::optional<Revision> revision_after(const std::vector<EpochStart>& starts, Epoch seen) {
  const auto next = std::ranges::upper_bound(starts, seen, {}, &EpochStart::epoch);
  if (next == starts.end()) return std::nullopt;
  return next->revision;
}

}  // namespace c10dd
