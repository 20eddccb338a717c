// SPDX-License-Identifier: Apache-2.0
// Waits for the end of a generation, and turns the reason for that end into a failure.
#include "collectives/generation_end.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "client/internal/throw_failure.h"
#include "collectives/group_registry.h"

namespace c10dd::collectives {

std::optional<GroupState> await_end(Membership& membership, std::uint64_t generation,
                                    Duration patience) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<GroupState> end;
  const auto subscription = membership.on_change([&](const GroupState& state) {
    const std::lock_guard lock(mutex);
    if (!end && state.ended(generation)) end = state;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait_for(lock, patience, [&] { return end.has_value(); });
  return end;
}

std::shared_ptr<void> abort_groups_at_end(Membership& membership) {
  return membership.on_change([&membership](const GroupState& state) {
    GroupRegistry::instance().abort_ended(membership, state);
  });
}

Failure failure_of(const GroupState& state) {
  Failure lost = failure(Code::aborted, state.reason);
  for (const MissingRank& one : client::ranks_of(state.missing)) {
    if (std::ranges::count(state.lost, one.rank) > 0) lost.missing.push_back(one);
  }
  return lost;
}

}  // namespace c10dd::collectives
