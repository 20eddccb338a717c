// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/formation.h"

#include <algorithm>

#include "daemon/core/group/ranks.h"
#include "daemon/core/planted.h"
#include "daemon/core/time_left.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

/// Returns the size up to which spares are added to the next generation: the size of the last
/// generation, but at least min and at most max.
std::uint32_t wanted(const GroupState& group) {
  const RendezvousPolicy& policy = group.facts().policy;
  return std::min(policy.max, std::max(policy.min, group.size()));
}

/// Returns the ranks of the previous generation whose members do not ask for a place again.
std::vector<Hole> holes_of(const GroupState& group) {
  std::vector<Hole> holes;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    const GroupMember* m = group.find(group.list().sessions[rank]);
    if (m != nullptr && group.asks(*m)) continue;
    holes.push_back(
        {static_cast<Rank>(rank), m == nullptr ? "" : m->host, m == nullptr ? "" : m->domain});
  }
  return holes;
}

/// Returns true if the `chosen` members are exactly the last quorum and that quorum is not broken.
/// The quorum then keeps its generation number.
bool stays(const GroupState& group, const std::vector<SessionId>& chosen) {
  const bool failed = std::ranges::any_of(
      chosen, [&](const SessionId& id) { return group.members().at(id).failed; });
  // A broken generation is never reused: its barriers have failed.
  const bool whole = group.facts().phase == GroupPhase::formed && !failed;
  return chosen == group.list().sessions && group.facts().policy.quorum && whole;
}

/// Plans the next generation from all members that ask for a place.
NextGeneration next_generation(const GroupState& group) {
  std::vector<SessionId> asking;
  std::vector<Candidate> candidates;
  for (const auto& [id, m] : group.members()) {
    if (!group.asks(m)) continue;
    asking.push_back(id);
    candidates.push_back({m.joined, m.host, m.domain, m.local_rank, m.requested_rank,
                          m.rank >= 0 ? m.rank : m.former_rank, m.spare});
  }
  const GroupFacts& facts = group.facts();
  const RankPlan plan = assign_ranks(candidates, holes_of(group), facts.policy.max, wanted(group));
  NextGeneration next;
  for (const std::size_t index : plan.ranks) next.members.push_back(asking[index]);
  for (const std::size_t index : plan.parked) next.parked.push_back(asking[index]);
  next.number = facts.generation;
  if (!stays(group, next.members) && !planted(Planted::generation_reused)) ++next.number;
  next.reason = format("generation {} of {}: {}", next.number, next.members.size(), plan.reason);
  if (facts.phase == GroupPhase::broken && !facts.reason.empty()) {
    next.reason += "; before: " + facts.reason.substr(0, limits::kReasonBytes);
  }
  return next;
}

}  // namespace

bool whole_launch_waits(const GroupState& group) {
  const GroupState::Counts& counts = group.counts();
  return counts.asking - counts.asking_spares >= group.facts().policy.max;
}

std::size_t usable(const GroupState& group) {
  const GroupState::Counts& counts = group.counts();
  const std::size_t regular = counts.asking - counts.asking_spares;
  const std::size_t room = wanted(group) > regular ? wanted(group) - regular : 0;
  return regular + std::min(counts.asking_spares, room);
}

std::uint32_t waiting(const GroupState& group) {
  if (group.facts().phase != GroupPhase::formed) return 0;
  const GroupState::Counts& counts = group.counts();
  const std::size_t max = group.facts().policy.max;
  const std::size_t newcomers = usable(group) - std::min(usable(group), counts.asking_old);
  const std::size_t room = max - std::min(max, counts.of_list);
  return static_cast<std::uint32_t>(std::min(newcomers, room));
}

bool Formation::last_call_over(const GroupState& group, TimePoint now) {
  if (!last_call_) last_call_ = now + group.facts().policy.last_call;
  return now >= *last_call_;
}

bool Formation::closes_elastic(const GroupState& group, TimePoint now) {
  const RendezvousPolicy& policy = group.facts().policy;
  const GroupPhase phase = group.facts().phase;
  const std::size_t needed = planted(Planted::below_min) ? 1 : policy.min;
  const bool gathers = phase == GroupPhase::forming || phase == GroupPhase::broken ||
                       (phase == GroupPhase::finished && whole_launch_waits(group));
  if (!gathers || usable(group) < needed) {
    last_call_.reset();
    return false;
  }
  const bool over = last_call_over(group, now);
  if (group.counts().asking_away > 0)
    return false;  // a member without a connection must first reconnect or be lost
  return over || (usable(group) >= policy.max && group.counts().expected == 0);
}

/// Applies the rule of torchft's Lighthouse. If all members of the last quorum ask again, the next
/// quorum forms at once. Otherwise at least min members, and more than half of the members that are
/// alive, must ask; the quorum then forms when all members ask or when the last call is over.
bool Formation::closes_quorum(const GroupState& group, TimePoint now) {
  const GroupState::Counts& counts = group.counts();
  if (counts.asking == 0) last_call_.reset();
  if (counts.asking == 0 || counts.asking_away > 0) return false;
  const std::size_t last = group.size();
  if (last > 0 && counts.asking_old == last) return true;
  const bool half = planted(Planted::quorum_of_half) ? counts.asking * 2 >= counts.alive
                                                     : counts.asking * 2 > counts.alive;
  if (counts.asking < group.facts().policy.min || !half) {
    last_call_.reset();
    return false;
  }
  return counts.asking == counts.alive || last_call_over(group, now);
}

std::optional<NextGeneration> Formation::consider(const GroupState& group, TimePoint now) {
  const bool quorum = group.facts().policy.quorum;
  if (!(quorum ? closes_quorum(group, now) : closes_elastic(group, now))) return std::nullopt;
  last_call_.reset();
  return next_generation(group);
}

void Formation::resume(const GroupState& group, TimePoint now) {
  const Duration noted = group.facts().last_call_left;
  if (noted == Duration::zero() || planted(Planted::last_call_renewed)) return;
  last_call_ = now + left_after_load(noted, group.facts().policy.last_call);
}

std::optional<TimePoint> Formation::next_deadline(const GroupState& group) const {
  const bool gathers = group.facts().phase != GroupPhase::formed || group.facts().policy.quorum;
  return gathers && group.counts().asking_away == 0 ? last_call_ : std::nullopt;
}

}  // namespace c10dd::core
