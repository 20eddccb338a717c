// SPDX-License-Identifier: Apache-2.0
// A heartbeat does not postpone the next check of the member that sent it. Each check reads the
// time at which the daemon last heard the member, and schedules the next check from this time.
#include "daemon/core/group/liveness.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/time_left.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

Duration bounded(Duration asked, Duration fallback) {
  if (asked == Duration::zero()) return fallback;
  return std::clamp<Duration>(asked, Duration(1), limits::kMemberTtlMax);
}

}  // namespace

void Liveness::check_at(const SessionId& id, TimePoint when) { checks_.set(id, shared_tick(when)); }

void Liveness::watch(const SessionId& id, const std::string& group, const RendezvousPolicy& policy,
                     TimePoint now) {
  const Duration ttl =
      std::max<Duration>(bounded(policy.ttl, limits::kSessionTtl), limits::kMemberTtlMin);
  const Duration grace = bounded(policy.grace, limits::kReconnectGrace);
  const auto [it, fresh] = members_.try_emplace(id);
  MemberLiveness& member = it->second;
  member.ttl = fresh ? ttl : std::min(member.ttl, ttl);
  member.grace = fresh ? grace : std::min(member.grace, grace);
  member.groups.insert(group);
  if (!member.back_by) check_at(id, now + member.ttl);
}

void Liveness::unwatch(const SessionId& id, const std::string& group) {
  const auto it = members_.find(id);
  if (it == members_.end()) return;
  it->second.groups.erase(group);
  if (!it->second.groups.empty()) return;
  if (it->second.noted > Duration::zero()) --noted_;
  checks_.erase(id);
  members_.erase(it);
}

bool Liveness::connected(const SessionId& id, TimePoint now) {
  const auto it = members_.find(id);
  if (it == members_.end()) return false;
  MemberLiveness& member = it->second;
  member.back_by.reset();
  check_at(id, now + member.ttl);
  if (std::exchange(member.noted, Duration::zero()) == Duration::zero()) return false;
  --noted_;
  return true;
}

void Liveness::disconnected(const SessionId& id, TimePoint now) {
  const auto it = members_.find(id);
  if (it == members_.end()) return;
  const TimePoint end = now + it->second.grace;
  check_at(id, std::min(end, next_note_of(it->second, now).value_or(end)));
}

void Liveness::expect_back(const SessionId& id, Duration noted, TimePoint now) {
  MemberLiveness& member = members_.at(id);
  if (noted > Duration::zero()) ++noted_;
  member.noted = noted;
  if (planted(Planted::return_renewed)) noted = Duration::zero();
  member.back_by = now + left_after_load(noted, restart_time(member));
  if (planted(Planted::no_restart_grace)) member.back_by = now + kTickGrid;
  check_at(id, std::min(*member.back_by, next_note_of(member, now).value_or(*member.back_by)));
}

Duration Liveness::restart_time(const MemberLiveness& member) const {
  return takeover_grace_ > Duration(0) ? takeover_grace_ + member.ttl
                                       : std::max<Duration>(limits::kRestartGrace, member.ttl);
}

/// Returns until when a restart may leave a member that is away time to return. With several
/// daemons this is never less than restart_time(), for which its process may count itself a member.
TimePoint Liveness::return_until(const MemberLiveness& member, TimePoint away_since) const {
  if (member.back_by) return *member.back_by;
  const TimePoint end = away_since + member.grace;
  return takeover_grace_ > Duration(0) ? std::max(end, away_since + restart_time(member)) : end;
}

/// Returns when a member that is away needs its next note; nothing if it needs none.
std::optional<TimePoint> Liveness::next_note_of(const MemberLiveness& member,
                                                TimePoint away_since) const {
  if (member.noted == Duration::zero() && noted_ >= limits::kAwayNoted) return std::nullopt;
  const Duration full = restart_time(member);
  const auto next = next_note(member.noted, full, return_until(member, away_since));
  return next ? std::optional(std::max(*next, away_since + note_step(full))) : std::nullopt;
}

void Liveness::note(const SessionId& id, MemberLiveness& member, TimePoint away_since,
                    TimePoint now) {
  const auto due = next_note_of(member, away_since);
  if (!due || *due > now) return;
  const Duration left = return_until(member, away_since) - now;
  const auto value = to_note(member.noted, restart_time(member), left);
  if (!value) return;
  if (member.noted == Duration::zero()) ++noted_;
  member.noted = *value;
  notes_.push_back({id, *value});
}

std::vector<Liveness::Lost> Liveness::take_lost(const Sessions& sessions, TimePoint now) {
  std::vector<Lost> all;
  for (std::size_t looked = 0; looked < limits::kExpiriesPerTick; ++looked) {
    const std::optional<SessionId> id = checks_.take_due(now);
    if (!id) break;
    if (std::optional<Lost> lost = check(*id, sessions, now)) all.push_back(std::move(*lost));
  }
  return all;
}

/// If the member is lost, returns it. Otherwise schedules the next check of the member for the
/// earliest time at which the member could be lost.
std::optional<Liveness::Lost> Liveness::check(const SessionId& id, const Sessions& sessions,
                                              TimePoint now) {
  MemberLiveness& member = members_.at(id);
  const Session* session = sessions.find(id);
  C10DD_ASSERT(session != nullptr);
  const TimePoint heard = sessions.last_heard(*session);
  TimePoint end = heard + (session->connected ? member.ttl : member.grace);
  std::string why =
      session->connected ? "silent for " : "its connection closed, and it did not return for ";
  why += human(now - heard);
  if (member.back_by && !session->connected) {
    end = *member.back_by;
    why = "not heard from since the daemon loaded the job " + human(now - heard) + " ago";
  }
  const bool forgets = planted(Planted::silence_forgotten) && session->connected;
  if (end <= now && !forgets) return Lost{id, std::move(why)};
  if (!session->connected) {
    const TimePoint since = member.back_by ? heard : session->last_seen;
    note(id, member, since, now);
    end = std::min(end, next_note_of(member, since).value_or(end));
  }
  check_at(id, std::max(end, now + kTickGrid));
  return std::nullopt;
}

std::set<std::string> Liveness::groups_of(const SessionId& id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? std::set<std::string>() : it->second.groups;
}

const std::string* Liveness::first_group_of(const SessionId& id) const {
  const auto it = members_.find(id);
  return it == members_.end() || it->second.groups.empty() ? nullptr : &*it->second.groups.begin();
}

Duration Liveness::ttl_of(const SessionId& id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? Duration(limits::kSessionTtl) : it->second.ttl;
}

std::vector<SessionId> Liveness::members() const {
  std::vector<SessionId> members;
  for (const auto& [id, member] : members_) members.push_back(id);
  return members;
}

}  // namespace c10dd::core
