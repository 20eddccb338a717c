// SPDX-License-Identifier: Apache-2.0
// Groups are aborted without the registry's lock, because the end of a group may destroy others.
#include "collectives/group_registry.h"

#include <algorithm>
#include <utility>

#include "client/internal/per_process.h"
#include "collectives/generation_end.h"

namespace c10dd::collectives {
namespace {

/// Returns `lost` with the ranks that its members have in `world`. Leaves out those that are not in
/// `world`.
Failure as_ranks_of(const World& world, Failure lost) {
  std::vector<MissingRank> missing;
  for (MissingRank& one : lost.missing) {
    const auto member = std::ranges::find(world.members, one.rank, &GroupMember::job_rank);
    if (member == world.members.end()) continue;
    one.rank = static_cast<Rank>(member - world.members.begin());
    missing.push_back(std::move(one));
  }
  lost.missing = std::move(missing);
  return lost;
}

}  // namespace

GroupRegistry& GroupRegistry::instance() { return client::of_this_process<GroupRegistry>(); }

std::shared_ptr<void> GroupRegistry::add(const std::shared_ptr<AbortableGroup>& group,
                                         std::string family, const Membership* membership) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.insert(
      entries_.end(), {group, std::move(family), membership, group->world().generation});
  return {nullptr, [this, entry](void*) {
            const std::lock_guard held(mutex_);
            entries_.erase(entry);
          }};
}

std::vector<std::shared_ptr<AbortableGroup>> GroupRegistry::find(
    const std::function<bool(const Entry&)>& matches) {
  std::vector<std::shared_ptr<AbortableGroup>> found;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!matches(entry)) continue;
    if (auto group = entry.group.lock()) found.push_back(std::move(group));
  }
  return found;
}

std::size_t GroupRegistry::abort(std::string_view family, std::uint64_t generation,
                                 const std::string& reason) {
  const auto groups = find(
      [&](const Entry& entry) { return entry.family == family && entry.generation <= generation; });
  for (const auto& group : groups) group->abort(reason);
  return groups.size();
}

void GroupRegistry::abort_ended(const Membership& membership, const GroupState& state) {
  const auto groups = find([&](const Entry& entry) {
    return entry.membership == &membership && state.ended(entry.generation);
  });
  for (const auto& group : groups) group->abort(as_ranks_of(group->world(), failure_of(state)));
}

}  // namespace c10dd::collectives
