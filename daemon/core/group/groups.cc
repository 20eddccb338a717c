// SPDX-License-Identifier: Apache-2.0
// A member's deadline is looked up when it is due, not moved with each sign of life.
#include "daemon/core/group/groups.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr Duration kGrid = std::chrono::milliseconds(25);  // deadlines of lives share ticks

Duration bounded(Duration asked, Duration fallback) {
  if (asked == Duration::zero()) return fallback;
  return std::clamp<Duration>(asked, Duration(1), limits::kMemberTtlMax);
}

}  // namespace

Group* Groups::open(const std::string& name) {
  const auto it = groups_.find(name);
  if (it == groups_.end()) return nullptr;
  touched_.insert(name);
  return &it->second;
}

const Group* Groups::find(const std::string& name) const {
  const auto it = groups_.find(name);
  return it == groups_.end() ? nullptr : &it->second;
}

Result<const Group*> Groups::known(const std::string& name) const {
  if (const Group* group = find(name)) return group;
  return failure(Code::not_found, "group \"" + printable(name, limits::kNameBytes) +
                                      "\" does not exist: nobody has joined it");
}

// ---- requests ----------------------------------------------------------------------------------

Result<void> Groups::join(const SessionId& id, const Session& session, const Join& request,
                          Moment& at) {
  const bool fresh = !groups_.contains(request.group);
  if (fresh && groups_.size() >= limits::kGroupsPerJob) {
    return failure(Code::quota_exceeded,
                   "too many groups in the job: " + std::to_string(groups_.size() + 1) +
                       " with this one, limit " + std::to_string(limits::kGroupsPerJob));
  }
  Group& group = groups_.try_emplace(request.group, request.group).first->second;
  Result<void> joined = group.join(id, session, request, at);
  if (!joined && fresh) groups_.erase(request.group);
  if (!joined) return joined;
  touched_.insert(request.group);
  watch(id, group, at.now);
  return {};
}

void Groups::leave(const SessionId& id, const Leave& request, Moment& at) {
  if (Group* group = open(request.group)) {
    group->leave(id, request.kind, request.detail, at);
  }
}

void Groups::withdraw(const SessionId& id, const std::string& name, const std::string& why,
                      Moment& at) {
  if (Group* group = open(name)) group->withdraw(id, why, at);
}

Result<std::uint64_t> Groups::notify(const Notify& request, Moment& at) {
  if (Result<const Group*> good = known(request.group); !good) return good.error();
  return open(request.group)->notify(request, at);
}

Result<void> Groups::acknowledge(const SessionId& id, const Acknowledge& request, Moment& at) {
  if (Result<const Group*> good = known(request.group); !good) return good.error();
  return open(request.group)->acknowledge(id, request.notice, at);
}

Result<void> Groups::progress(const SessionId& id, const Progress& report, Moment& at) {
  if (Result<const Group*> good = known(report.group); !good) return good.error();
  return open(report.group)->progress(id, report, at);
}

// ---- lives -------------------------------------------------------------------------------------

void Groups::check_at(const SessionId& id, Life& life, TimePoint when) {
  checks_.erase({life.check, id});
  const Duration since = when.time_since_epoch();
  life.check = TimePoint((since + kGrid - Duration(1)) / kGrid * kGrid);
  checks_.emplace(life.check, id);
}

void Groups::watch(const SessionId& id, const Group& group, TimePoint now) {
  const RendezvousPolicy& policy = group.facts().policy;
  const Duration ttl =
      std::max<Duration>(bounded(policy.ttl, limits::kSessionTtl), limits::kMemberTtlMin);
  const Duration grace = bounded(policy.grace, limits::kReconnectGrace);
  const bool fresh = !lives_.contains(id);
  Life& life = lives_[id];
  life.ttl = fresh ? ttl : std::min(life.ttl, ttl);
  life.grace = fresh ? grace : std::min(life.grace, grace);
  life.groups.insert(group.name());
  if (!life.back_by) check_at(id, life, now + life.ttl);
}

void Groups::unwatch(const SessionId& id, const std::string& group) {
  const auto it = lives_.find(id);
  if (it == lives_.end()) return;
  it->second.groups.erase(group);
  if (!it->second.groups.empty()) return;
  checks_.erase({it->second.check, id});
  lives_.erase(it);
}

void Groups::connected(const SessionId& id, TimePoint now) {
  const auto it = lives_.find(id);
  if (it == lives_.end()) return;
  it->second.back_by.reset();
  check_at(id, it->second, now + it->second.ttl);
  for (const std::string& name : it->second.groups) open(name)->set_present(id, true);
}

void Groups::disconnected(const SessionId& id, TimePoint now) {
  const auto it = lives_.find(id);
  if (it == lives_.end()) return;
  check_at(id, it->second, now + it->second.grace);
  for (const std::string& name : it->second.groups) open(name)->set_present(id, false);
}

void Groups::lose(const SessionId& id, const std::string& why, Moment& at) {
  const std::set<std::string> groups = lives_.at(id).groups;
  for (const std::string& name : groups) {
    open(name)->lose(id, why, at);
    unwatch(id, name);
  }
}

void Groups::ended(const SessionId& id, const std::string& why, Moment& at) {
  if (lives_.contains(id)) lose(id, why, at);
}

void Groups::tick(const Sessions& sessions, Moment& at) {
  std::size_t looked = 0;
  while (!checks_.empty() && checks_.begin()->first <= at.now &&
         looked++ < limits::kExpiriesPerTick) {
    const SessionId id = checks_.begin()->second;
    Life& life = lives_.at(id);
    const Session* session = sessions.find(id);
    C10DD_ASSERT(session != nullptr);
    const TimePoint heard = sessions.last_heard(*session);
    TimePoint end = heard + (session->connected ? life.ttl : life.grace);
    std::string why =
        session->connected ? "silent for " : "its connection closed, and it was away for ";
    why += human(at.now - heard);
    if (life.back_by && !session->connected) {
      end = *life.back_by;
      why = "not heard of since the daemon started again " + human(limits::kRestartGrace) + " ago";
    }
    const bool forgets = planted(Planted::silence_forgotten) && session->connected;
    if (end > at.now || forgets) {
      check_at(id, life, std::max(end, at.now + kGrid));
    } else {
      lose(id, why, at);
    }
  }
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= at.now) {
    const std::string name = by_deadline_.begin()->second;
    by_deadline_.erase(by_deadline_.begin());
    deadlines_.erase(name);
    touched_.insert(name);
  }
}

std::optional<TimePoint> Groups::next_deadline() const {
  std::optional<TimePoint> next;
  if (!checks_.empty()) next = checks_.begin()->first;
  if (!by_deadline_.empty()) {
    const TimePoint first = by_deadline_.begin()->first;
    next = next ? std::min(*next, first) : first;
  }
  return next;
}

std::vector<Groups::Change> Groups::settle(Moment& at) {
  std::vector<Change> changed;
  while (!touched_.empty()) {
    const std::string name = *touched_.begin();
    Group& group = groups_.at(name);
    group.consider(at);
    touched_.erase(name);
    count(name, group);
    if (std::exchange(group.dirty, false)) at.rows.push_back(group.row());
    Change change{&group, std::exchange(group.decided, false), std::exchange(group.ended, false),
                  std::exchange(group.newly_stalled, {})};
    if (std::exchange(group.told, false)) changed.push_back(std::move(change));
    const auto old = deadlines_.find(name);
    const auto next = group.next_deadline();
    if (old != deadlines_.end()) {
      by_deadline_.erase({old->second, name});
      deadlines_.erase(old);
    }
    if (next) {
      deadlines_[name] = *next;
      by_deadline_.emplace(*next, name);
    }
    for (const SessionId& id : group.take_ended()) unwatch(id, name);
  }
  return changed;
}

void Groups::count(const std::string& name, const Group& group) {
  Attendance& old = counted_[name];
  const Attendance now = group.attendance();
  attendance_.here += now.here - old.here;
  attendance_.missing += now.missing - old.missing;
  old = now;
}

// ---- rows --------------------------------------------------------------------------------------

Result<void> Groups::restore(const Row& row) {
  RowKeyReader key(row.key);
  const std::string name(key.text());
  const char kind = row.key[0];
  const std::uint64_t high = kind == 'm' ? key.number() : 0;
  const SessionId id{high, kind == 'm' ? key.number() : 0};
  const Failure damaged =
      failure(Code::malformed, "damaged row of kind '" + std::string(1, kind) + "' of group \"" +
                                   printable(name, limits::kNameBytes) + "\"");
  if (!key.complete() || name.empty() || name.size() > limits::kNameBytes) return damaged;
  Group& group = groups_.try_emplace(name, name).first->second;
  if (groups_.size() > limits::kGroupsPerJob) return damaged;
  if (kind == 'g') {
    Result<GroupFacts> facts = wire::decode<GroupFacts>(row.value);
    if (!facts) return damaged;
    return group.restore(std::move(*facts));
  }
  if (kind == 'm') {
    Result<GroupMember> member = wire::decode<GroupMember>(row.value);
    if (!member) return damaged;
    return group.restore(id, std::move(*member));
  }
  Result<MemberList> list = wire::decode<MemberList>(row.value);
  if (!list) return damaged;
  return group.restore(std::move(*list));
}

Result<void> Groups::resume(Revision newest, TimePoint now) {
  for (auto& [name, group] : groups_) {
    if (Result<void> good = group.resume(newest, now); !good) return good;
    for (const auto& [id, member] : group.members()) {
      if (member.state != GroupMember::State::here) continue;
      watch(id, group, now);
      Life& life = lives_.at(id);
      const Duration grace = planted(Planted::no_restart_grace) ? kGrid : limits::kRestartGrace;
      life.back_by = now + std::max<Duration>(grace, life.ttl);
      if (planted(Planted::no_restart_grace)) life.back_by = now + kGrid;
      check_at(id, life, *life.back_by);
    }
    touched_.insert(name);
    count(name, group);
  }
  return {};
}

std::vector<SessionId> Groups::members() const {
  std::vector<SessionId> members;
  for (const auto& [id, life] : lives_) members.push_back(id);
  return members;
}

Revision Groups::newest() const {
  Revision newest = 0;
  for (const auto& [name, group] : groups_) newest = std::max(newest, group.changed());
  return newest;
}

}  // namespace c10dd::core
