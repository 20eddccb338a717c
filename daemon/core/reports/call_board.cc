// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/call_board.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

Result<void> check(const PublishCall& publish) {
  if (publish.rank >= limits::kWorldSize) {
    return failure(Code::invalid_argument, "publish_call: rank {} is too high: ranks are below {}",
                   publish.rank, limits::kWorldSize);
  }
  const PublishedCall& call = publish.call;
  for (const std::string* name : {&call.collective, &call.dtype, &call.reduce_op}) {
    if (name->size() > limits::kCallNameBytes) {
      return failure(Code::too_large, "publish_call: name too long: {} bytes, limit {}",
                     name->size(), limits::kCallNameBytes);
    }
    // Other ranks show these names in error texts, so the names must be printable.
    if (printable(*name, limits::kCallNameBytes) != *name) {
      return failure(Code::invalid_argument, "publish_call: the name \"{}\" is not printable text",
                     printable(*name, limits::kCallNameBytes));
    }
  }
  return {};
}

SomeRanks some(const RankSet& ranks) { return {ranks.size(), ranks.ranges(limits::kMissingNamed)}; }

}  // namespace

Result<void> CallBoard::has_room(const PublishCall& publish) const {
  const auto group = groups_.find(publish.process_group);
  const bool known = group != groups_.end() && group->second.current.contains(publish.rank);
  if (!known && deadlines_.size() >= limits::kPublishedCallsPerJob) {
    return failure(Code::quota_exceeded,
                   "publish_call: too many published calls in this job: {}, limit {}; a call is "
                   "forgotten {} s after it was last published",
                   deadlines_.size(), limits::kPublishedCallsPerJob,
                   limits::kPublishedCallLife.count());
  }
  if (group == groups_.end() || group->second.calls.size() < limits::kCallsPerProcessGroup ||
      group->second.calls.contains(publish.call)) {
    return {};
  }
  return failure(
      Code::quota_exceeded,
      "publish_call: the ranks of this process group are in too many different calls: {}, limit {}",
      group->second.calls.size(), limits::kCallsPerProcessGroup);
}

Result<void> CallBoard::publish(const PublishCall& publish, TimePoint now) {
  if (Result<void> good = check(publish); !good) return good;
  if (publish.ended) {
    forget(publish.process_group, publish.rank);
    return {};
  }
  if (Result<void> good = has_room(publish); !good) return good;
  ProcessGroup& group = groups_[publish.process_group];
  const auto known = group.current.find(publish.rank);
  if (known == group.current.end() || known->second->first != publish.call) {
    const auto call = group.calls.try_emplace(publish.call).first;
    call->second.insert(publish.rank);
    if (known != group.current.end()) {
      forget(publish.process_group, publish.rank);  // `group` stays, because it has the new call
    }
    group.published.insert(publish.rank);
    group.current.emplace(publish.rank, call);
  }
  deadlines_.set({publish.process_group, publish.rank}, now + limits::kPublishedCallLife);
  return {};
}

Result<PublishedCalls> CallBoard::read(const ReadCalls& read) const {
  if (read.world_size == 0 || read.world_size > limits::kWorldSize) {
    return failure(Code::invalid_argument, "read_calls: invalid world size {}; use 1 to {}",
                   read.world_size, limits::kWorldSize);
  }
  static const ProcessGroup kNone;
  const auto found = groups_.find(read.process_group);
  const ProcessGroup& group = found == groups_.end() ? kNone : found->second;
  PublishedCalls reply;
  for (const auto& [call, ranks] : group.calls) reply.calls.push_back({call, some(ranks)});
  std::ranges::stable_sort(reply.calls, {}, [](const SharedCall& one) { return one.ranks.count; });
  if (reply.calls.size() > limits::kCallsRead) {
    // Keeps the calls with the fewest ranks, and the two calls with the most ranks. These two show
    // what most ranks do, and whether there is a tie.
    reply.skipped = static_cast<std::uint32_t>(reply.calls.size() - limits::kCallsRead);
    reply.calls.erase(reply.calls.end() - 2 - reply.skipped, reply.calls.end() - 2);
  }
  reply.silent = {read.world_size - group.published.size_below(read.world_size),
                  group.published.gaps(read.world_size, limits::kMissingNamed)};
  return reply;
}

void CallBoard::tick(TimePoint now) {
  for (std::size_t n = 0; n < limits::kExpiriesPerTick; ++n) {
    const auto due = deadlines_.take_due(now);
    if (!due) return;
    forget(due->first, due->second);
  }
}

void CallBoard::forget(std::uint64_t process_group, Rank rank) {
  const auto found = groups_.find(process_group);
  if (found == groups_.end()) return;
  ProcessGroup& group = found->second;
  const auto entry = group.current.find(rank);
  if (entry == group.current.end()) return;
  deadlines_.erase({process_group, rank});
  RankSet& ranks = entry->second->second;
  ranks.erase(rank);
  if (ranks.empty()) group.calls.erase(entry->second);
  if (!planted(Planted::call_kept)) group.published.erase(rank);
  group.current.erase(entry);
  if (group.calls.empty()) groups_.erase(found);
}

AuditResult CallBoard::audit() const {
  std::size_t entries = 0;
  for (const auto& [number, group] : groups_) {
    std::size_t ranks = 0;
    for (const auto& [call, who] : group.calls) ranks += who.size();
    entries += group.current.size();
    AuditResult wrong = first_difference(
        {differ("ranks in published calls", ranks, group.current.size()),
         differ("ranks that have published", group.published.size(), group.current.size())});
    if (wrong) return wrong;
  }
  return differ("deadlines of published calls", deadlines_.size(), entries);
}

}  // namespace c10dd::core
