// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/status.h"

#include <algorithm>

#include "daemon/core/group/formation.h"
#include "daemon/core/group/notices.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/rank_ranges.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kPageMembers = 1'024;
constexpr std::size_t kDescribed = 8;  // members described in one text

std::string name_of(const GroupState& group) {
  return format("group \"{}\"", printable(group.name(), limits::kNameBytes));
}

MissingRank unknown(Rank rank) {
  MissingRank about;
  about.rank = rank;
  return about;
}

/// Lists each rank of the current generation whose member is lost, finished or stalled.
struct NotAtWork {
  std::vector<Rank> lost;
  std::vector<Rank> finished;
  std::vector<Rank> stalled;
  std::vector<MissingRank> details;  ///< first lost or stalled ranks, at most limits::kMissingNamed
};

NotAtWork not_at_work(const GroupState& group) {
  NotAtWork ranks;
  for (Rank rank = 0; rank < group.size(); ++rank) {
    const GroupMember* m = group.holder(rank);
    const bool here = m != nullptr && m->is_here();
    if (here && !m->stalled) continue;
    const GroupMember* known = group.find(group.list().sessions[rank]);
    const bool finished = m == nullptr ? known != nullptr && known->former_rank >= 0
                                       : m->state == GroupMember::State::finished;
    if (finished) {
      ranks.finished.push_back(rank);
      continue;
    }
    (here ? ranks.stalled : ranks.lost).push_back(rank);
    if (ranks.details.size() < limits::kMissingNamed) {
      ranks.details.push_back(describe_rank(group, rank));
    }
  }
  return ranks;
}

/// Returns the ranks that still need a member, at most limits::kMissingNamed. If members request
/// ranks, these are the ranks that no member requests. Otherwise, if the generation is broken,
/// they are the ranks whose members have not joined again.
std::vector<Rank> awaited(const GroupState& group) {
  const bool requested = group.counts().requests > 0;
  const bool broken = group.facts().phase == GroupPhase::broken;
  std::size_t size = broken ? group.size() : 0;
  if (requested) size = group.facts().policy.max;
  std::vector<bool> here(size);
  for (const auto& [id, m] : group.members()) {
    const std::int64_t rank = requested ? m.requested_rank : m.rank;
    if (group.asks(m) && rank >= 0 && static_cast<std::size_t>(rank) < here.size()) {
      here[static_cast<std::size_t>(rank)] = true;
    }
  }
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < here.size() && missing.size() < limits::kMissingNamed; ++rank) {
    if (!here[rank]) missing.push_back(rank);
  }
  return missing;
}

/// Returns a text that lists the members that ask for a place, for example " (host-a:17, host-b:4
/// (spare), ...)".
std::string asking_members(const GroupState& group) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [id, m] : group.members()) {
    if (shown == kDescribed) break;
    if (!group.asks(m)) continue;
    text += (shown++ == 0 ? " (" : ", ") + printable(m.host, limits::kNameBytes);
    if (m.pid != 0) text += format(":{}", m.pid);
    if (m.spare) text += " (spare)";
  }
  if (shown > 0) text += group.counts().asking > shown ? ", ...)" : ")";
  return text;
}

/// If the newest generation is formed or finished, returns a text that says when a new member gets
/// a place. Otherwise returns an empty text.
std::string when_next(const GroupState& group) {
  const GroupFacts& facts = group.facts();
  if (facts.phase == GroupPhase::formed) {
    return format(
        "; generation {} has {} active members, max is {}: a new member gets a place when "
        "these members join again",
        facts.generation, group.size(), facts.policy.max);
  }
  if (facts.phase == GroupPhase::finished) {
    return format("; generation {} has finished its work: the next forms when another member joins",
                  facts.generation);
  }
  return "";
}

}  // namespace

std::optional<Joined> place_of(const GroupState& group, const SessionId& id,
                               std::uint64_t after_round) {
  const GroupFacts& facts = group.facts();
  const GroupMember* m = group.find(id);
  if (m == nullptr || m->rank < 0 || !m->is_here() || group.asks(*m) ||
      facts.round <= after_round) {
    return std::nullopt;
  }
  Joined joined;
  joined.round = facts.round;
  joined.generation = facts.generation;
  joined.rank = static_cast<Rank>(m->rank);
  joined.size = group.size();
  joined.digest = group.list().digest;
  joined.failures = facts.failures;
  joined.reason = facts.reason;
  joined.status = facts.status;
  return joined;
}

Result<MemberPage> page_of(const GroupState& group, const ReadMembers& request) {
  const std::uint32_t size = group.size();
  if (request.generation != 0 && request.generation != group.facts().generation) {
    return not_the_newest(group, request.generation);
  }
  if (request.first >= size) {
    return failure(Code::invalid_argument,
                   "{} has {} ranks, but the request asks for members starting at rank {}",
                   name_of(group), size, request.first);
  }
  MemberPage page;
  page.generation = group.facts().generation;
  page.size = size;
  page.digest = group.list().digest;
  page.first = request.first;
  const std::size_t end = std::min<std::size_t>(request.first + kPageMembers, size);
  page.count = static_cast<std::uint32_t>(end - request.first);
  const std::vector<std::uint32_t>& offsets = group.list().offsets;
  const std::size_t from = offsets[request.first];
  const std::size_t to = end == size ? group.encoded_list()->size() : offsets[end];
  page.list = {group.encoded_list(), from, to - from};
  return page;
}

GroupStatus status_of(const GroupState& group) {
  const GroupFacts& facts = group.facts();
  NotAtWork ranks = not_at_work(group);
  GroupStatus status;
  status.number = facts.status;
  status.round = facts.round;
  status.generation = facts.generation;
  status.size = group.size();
  status.phase = facts.phase;
  status.reason = facts.reason;
  status.lost = ranges_of(ranks.lost);
  status.finished = ranges_of(ranks.finished);
  status.stalled = ranges_of(ranks.stalled);
  status.details = std::move(ranks.details);
  status.waiting = waiting(group);
  Notices::describe(group, status);
  return status;
}

MissingRank describe_rank(const GroupState& group, Rank rank) {
  MissingRank about = unknown(rank);
  const GroupMember* m = group.holder(rank);
  if (m == nullptr) return about;
  about.host = m->host;
  about.pid = m->pid;
  about.cause = MissingRank::Cause::not_arrived;
  if (!m->present) about.cause = MissingRank::Cause::disconnected;
  about.doing = m->phase.empty() ? "" : m->phase + " of step " + std::to_string(m->at_step);
  if (!m->is_here()) {
    about.cause = MissingRank::Cause::dead;
    about.doing = m->ending;
  }
  return about;
}

Failure not_the_newest(const GroupState& group, std::uint64_t generation) {
  return failure(Code::stale_generation,
                 "generation {} of {} is not the newest generation, {}; join again", generation,
                 name_of(group), group.facts().generation);
}

Failure why_ended(const GroupState& group) {
  Failure reason = failure(Code::aborted, "generation {} of {} has ended: {}",
                           group.facts().generation, name_of(group), group.facts().reason);
  reason.missing = not_at_work(group).details;
  return reason;
}

Failure why_not_needed(const GroupState& group) {
  return failure(
      Code::work_finished,
      "generation {} of {} has finished its work: this process had no place in it, and is "
      "not needed",
      group.facts().generation, name_of(group));
}

Failure why_not_formed(const GroupState& group) {
  const RendezvousPolicy& policy = group.facts().policy;
  Failure result = failure(Code::timed_out, "{} of at least {} members have joined{}{}",
                           usable(group), policy.min, asking_members(group), when_next(group));
  if (!policy.quorum && usable(group) >= policy.min && usable(group) < policy.max &&
      awaited(group).empty()) {
    result.detail +=
        format("; the group waits {} (last_call) for more members, up to {}: use a longer timeout",
               human(policy.last_call), policy.max);
  }
  for (const Rank rank : awaited(group)) {
    result.missing.push_back(group.counts().requests > 0 ? unknown(rank)
                                                         : describe_rank(group, rank));
    if (result.missing.size() <= kDescribed) {
      result.detail += "; " + sentence(result.missing.back());
    }
  }
  if (!result.missing.empty() || group.facts().phase == GroupPhase::formed) return result;
  // The missing ranks are not known here. For each member that is still needed to reach `min`, an
  // entry without details is added.
  for (std::size_t rank = usable(group);
       rank < policy.min && result.missing.size() < limits::kMissingNamed; ++rank) {
    result.missing.push_back(unknown(static_cast<Rank>(rank)));
  }
  return result;
}

}  // namespace c10dd::core
