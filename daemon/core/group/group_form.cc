// SPDX-License-Identifier: Apache-2.0
// When the next generation forms and of whom. Who gets which rank is decided in ranks.cc.
#include <algorithm>

#include "daemon/core/group/group.h"
#include "daemon/core/planted.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {

/// The size up to which spares get places.
std::uint32_t Group::wanted() const {
  return std::min(facts_.policy.max, std::max(facts_.policy.min, size()));
}

/// How many of those who ask could get a place.
std::size_t Group::usable() const {
  const std::size_t regular = counts_.asking - counts_.asking_spares;
  const std::size_t room = wanted() > regular ? wanted() - regular : 0;
  return regular + std::min(counts_.asking_spares, room);
}

/// Newcomers that would get a place in a formed group.
std::uint32_t Group::waiting() const {
  if (facts_.phase != GroupPhase::formed) return 0;
  const std::size_t newcomers = usable() - std::min(usable(), counts_.asking_old);
  const std::size_t room =
      facts_.policy.max - std::min<std::size_t>(facts_.policy.max, counts_.of_list);
  return static_cast<std::uint32_t>(std::min(newcomers, room));
}

bool Group::last_call_over(TimePoint now) {
  if (!last_call_) last_call_ = now + facts_.policy.last_call;
  return now >= *last_call_;
}

/// Members that wait beside a generation until it has finished would do its work again, unless they
/// are as many as a generation may have: then they are another launch.
bool Group::whole_launch_waits() const {
  return counts_.asking - counts_.asking_spares >= facts_.policy.max;
}

bool Group::closes_elastic(TimePoint now) {
  const RendezvousPolicy& policy = facts_.policy;
  const std::size_t needed = planted(Planted::below_min) ? 1 : policy.min;
  const bool gathers = facts_.phase == GroupPhase::forming || facts_.phase == GroupPhase::broken ||
                       (facts_.phase == GroupPhase::finished && whole_launch_waits());
  if (!gathers || usable() < needed) {
    last_call_.reset();
    return false;
  }
  const bool over = last_call_over(now);
  if (counts_.asking_away > 0) return false;  // back or lost within its grace
  return over || (usable() >= policy.max && counts_.expected == 0);
}

/// The rule of torchft's Lighthouse: at once when all of the last quorum ask again, else at least
/// min and more than half of the living.
bool Group::closes_quorum(TimePoint now) {
  if (counts_.asking == 0) last_call_.reset();
  if (counts_.asking == 0 || counts_.asking_away > 0) return false;
  const std::size_t last = list_->sessions.size();
  if (last > 0 && counts_.asking_old == last) return true;
  const bool half = planted(Planted::quorum_of_half) ? counts_.asking * 2 >= counts_.alive
                                                     : counts_.asking * 2 > counts_.alive;
  if (counts_.asking < facts_.policy.min || !half) {
    last_call_.reset();
    return false;
  }
  return counts_.asking == counts_.alive || last_call_over(now);
}

void Group::consider(Moment& at) {
  end_notices(at);
  mark_stalled(at);
  if (facts_.policy.quorum ? closes_quorum(at.now) : closes_elastic(at.now)) form(at);
}

std::optional<TimePoint> Group::next_deadline() const {
  std::optional<TimePoint> next;
  const auto sooner = [&](TimePoint t) { next = next ? std::min(*next, t) : t; };
  const bool gathers = facts_.phase != GroupPhase::formed || facts_.policy.quorum;
  if (last_call_ && gathers && counts_.asking_away == 0) sooner(*last_call_);
  for (const auto& [number, end] : notices_end_) sooner(end);
  if (!stall_times_.empty()) sooner(stall_times_.begin()->first);
  return next;
}

void Group::form(Moment& at) {
  std::vector<SessionId> asking;
  std::vector<Candidate> candidates;
  for (const auto& [id, m] : members_) {
    if (m.state != GroupMember::State::here || !asks(m)) continue;
    asking.push_back(id);
    candidates.push_back({m.joined, m.host, m.domain, m.local_rank, m.claimed_rank,
                          m.rank >= 0 ? m.rank : m.former_rank, m.spare});
  }
  std::vector<Hole> holes;
  for (std::size_t rank = 0; rank < list_->sessions.size(); ++rank) {
    const GroupMember* m = find(list_->sessions[rank]);
    if (m != nullptr && m->state == GroupMember::State::here && asks(*m)) continue;
    holes.push_back(
        {static_cast<Rank>(rank), m == nullptr ? "" : m->host, m == nullptr ? "" : m->domain});
  }
  const RankPlan plan = assign_ranks(candidates, holes, facts_.policy.max, wanted());
  const std::string how = facts_.phase == GroupPhase::broken ? facts_.reason : std::string();
  const std::vector<SessionId> chosen = apply(plan, asking, at);
  facts_.reason = "generation " + std::to_string(facts_.generation) + " of " +
                  std::to_string(chosen.size()) + ": " + plan.reason +
                  (how.empty() ? "" : "; before: " + how.substr(0, limits::kReasonBytes));
}

/// Gives out the ranks; what was before is forgotten.
std::vector<SessionId> Group::apply(const RankPlan& plan, const std::vector<SessionId>& asking,
                                    Moment& at) {
  std::vector<SessionId> chosen;
  std::vector<std::int64_t> previous;
  bool failed = false;
  for (const std::size_t index : plan.ranks) {
    chosen.push_back(asking[index]);
    const GroupMember& m = members_.at(asking[index]);
    previous.push_back(m.rank >= 0 ? m.rank : m.former_rank);
    failed = failed || m.failed;
  }
  // What was broken stays broken: its meetings have ended, and somebody in it had been lost.
  const bool whole = facts_.phase == GroupPhase::formed && !failed;
  const bool same = chosen == list_->sessions && facts_.policy.quorum && whole;
  if (!same && !planted(Planted::generation_reused)) ++facts_.generation;
  for (auto& [id, m] : members_) m.rank = m.former_rank = -1;
  for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
    members_.at(chosen[rank]).rank = static_cast<std::int64_t>(rank);
  }
  list_->sessions = chosen;
  finished_ = 0;
  ++facts_.round;
  for (const std::size_t index : plan.parked) {
    GroupMember& m = members_.at(asking[index]);
    m.asked_in = facts_.round;
    put(asking[index], m, at);
  }
  facts_.phase = GroupPhase::formed;
  last_call_.reset();
  forget_ended(at);
  counts_ = {};
  claims_.clear();
  for (const auto& [id, m] : members_) count(m, 1);
  encode_list(previous);
  at.rows.push_back({Row::Kind::put, group_key('l', name_), wire::encode(*list_)});
  list_->encoded.clear();
  decided = true;
  tell(at);
  return chosen;
}

void Group::encode_list(const std::vector<std::int64_t>& previous) {
  Bytes encoded;
  wire::Writer writer(encoded);
  list_->offsets.clear();
  for (std::size_t rank = 0; rank < list_->sessions.size(); ++rank) {
    const GroupMember& m = members_.at(list_->sessions[rank]);
    list_->offsets.push_back(static_cast<std::uint32_t>(encoded.size()));
    writer.put(MemberInfo{static_cast<Rank>(rank), m.host, m.pid, m.local_rank, m.device, m.domain,
                          m.labels, m.step, previous[rank]});
  }
  list_->digest = digest_of(list_->sessions);
  list_->encoded = encoded;
  encoded_ = std::make_shared<const Bytes>(std::move(encoded));
}

/// Those who are no members any more, now that the ranks of the generation before mean nothing.
void Group::forget_ended(Moment& at) {
  for (auto it = members_.begin(); it != members_.end();) {
    const bool gone = it->second.state != GroupMember::State::here;
    if (gone) at.rows.push_back({Row::Kind::erase, member_key(name_, it->first), {}});
    it = gone ? members_.erase(it) : std::next(it);
  }
}

}  // namespace c10dd::core
