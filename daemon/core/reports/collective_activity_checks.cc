// SPDX-License-Identifier: Apache-2.0
// Checks a report of activity against what earlier reports have told.
#include <algorithm>

#include "daemon/core/reports/collective_activity.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {

Result<void> CollectiveActivity::check(const Reporter* by, const Activity& activity) const {
  std::size_t open = by == nullptr ? 0 : by->open.size();
  std::size_t ranks = ranks_;
  for (const OpenedGroup& opened : activity.opened) {
    if (Result<void> good = check_opened(by, opened); !good) return good;
    if (by == nullptr || by->place_in(opened.process_group) == nullptr) ++open;
    if (!groups_.contains(opened.process_group)) ranks += opened.size;
  }
  if (open > limits::kOpenGroups) {
    return failure(Code::quota_exceeded,
                   "activity: this session would have {} process groups open, limit {}; close some",
                   open, limits::kOpenGroups);
  }
  if (ranks > limits::kGroupRanksPerJob) {
    return failure(Code::quota_exceeded,
                   "activity: the process groups of this job would have {} ranks in all, limit {}; "
                   "close some groups",
                   ranks, limits::kGroupRanksPerJob);
  }
  for (const GroupActivity& told : activity.groups) {
    if (Result<void> good = check_told(by, activity, told); !good) return good;
  }
  return {};
}

Result<void> CollectiveActivity::check_opened(const Reporter* by, const OpenedGroup& opened) const {
  const auto found = groups_.find(opened.process_group);
  if (found == groups_.end()) return {};
  const ActivityGroup& group = found->second;
  if (group.size() != opened.size) {
    return failure(Code::size_mismatch,
                   "activity: rank {} says that {} has size {}, but other ranks say {}; check the "
                   "ranks' arguments",
                   opened.rank, group.name, opened.size, group.size());
  }
  const OpenPlace* const before = by == nullptr ? nullptr : by->place_in(opened.process_group);
  if (before != nullptr && before->rank != opened.rank) {
    return failure(Code::invalid_argument,
                   "activity: this session has {} open as rank {}, and cannot be rank {}, too",
                   group.name, before->rank, opened.rank);
  }
  const RankActivity& rank = group.ranks[opened.rank];
  if (before != nullptr || rank.state != RankActivity::State::open) return {};
  const Session* const holder = sessions_.find(reporters_[rank.reporter].session);
  if (holder == nullptr || !holder->connected) return {};
  return failure(Code::invalid_argument,
                 "activity: rank {} of {} is already {}, which is connected; one process can be a "
                 "rank",
                 opened.rank, group.name, process_of(holder));
}

Result<void> CollectiveActivity::check_told(const Reporter* by, const Activity& activity,
                                            const GroupActivity& told) const {
  const auto opened =
      std::ranges::find(activity.opened, told.process_group, &OpenedGroup::process_group);
  const OpenPlace* const place = by == nullptr ? nullptr : by->place_in(told.process_group);
  if (place == nullptr && opened == activity.opened.end()) {
    return failure(Code::not_found,
                   "activity: this session has not opened process group {}; a client reports all "
                   "that it has open when it connects",
                   told.process_group);
  }
  const Rank size = opened != activity.opened.end() ? opened->size : place->group->size();
  for (const UnfinishedOperation& one : told.oldest) {
    if (one.peer < static_cast<std::int64_t>(size)) continue;
    return failure(Code::invalid_argument,
                   "activity: an operation has peer {}, but process group {} has size {}; ranks "
                   "begin with 0",
                   one.peer, told.process_group, size);
  }
  // A client that opens a group again may have begun again.
  if (place == nullptr || opened != activity.opened.end()) return {};
  const RankActivity& known = place->group->ranks[place->rank];
  for (const auto& [what, before, now] :
       {std::tuple("collectives", known.collectives.issued, told.collectives.issued),
        std::tuple("messages", known.messages.issued, told.messages.issued)}) {
    if (now >= before) continue;
    return failure(Code::invalid_argument,
                   "activity: process group {} has issued {} {}, but {} earlier; no count may "
                   "decrease",
                   told.process_group, now, what, before);
  }
  return {};
}

}  // namespace c10dd::core
