// SPDX-License-Identifier: Apache-2.0
// open() marks the group that it returns as touched; settle() settles each touched group.
#include "daemon/core/group/groups.h"

#include <algorithm>

#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {

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
  return failure(Code::not_found, "group \"{}\" does not exist: nobody has joined it",
                 printable(name, limits::kNameBytes));
}

// ---- requests ----------------------------------------------------------------------------------

Result<void> Groups::join(const SessionId& id, const Session& session, const Join& request,
                          ChangeContext& at) {
  const bool fresh = !groups_.contains(request.group);
  if (fresh && groups_.size() >= limits::kGroupsPerJob) {
    return failure(Code::quota_exceeded, "too many groups in the job: {} with this one, limit {}",
                   groups_.size() + 1, limits::kGroupsPerJob);
  }
  Group& group = groups_.try_emplace(request.group, request.group).first->second;
  Result<void> joined = group.join(id, session, request, at);
  if (!joined && fresh) groups_.erase(request.group);
  if (!joined) return joined;
  touched_.insert(request.group);
  liveness_.watch(id, request.group, group.facts().policy, at.now);
  return {};
}

void Groups::leave(const SessionId& id, const Leave& request, ChangeContext& at) {
  if (Group* group = open(request.group)) {
    group->leave(id, request.kind, request.detail, at);
  }
}

void Groups::withdraw(const SessionId& id, const std::string& name, const std::string& why,
                      ChangeContext& at) {
  if (Group* group = open(name)) group->withdraw(id, why, at);
}

Result<std::uint64_t> Groups::notify(const Notify& request, ChangeContext& at) {
  if (Result<const Group*> good = known(request.group); !good) return good.error();
  return open(request.group)->notify(request, at);
}

Result<void> Groups::acknowledge(const SessionId& id, const Acknowledge& request,
                                 ChangeContext& at) {
  if (Result<const Group*> good = known(request.group); !good) return good.error();
  return open(request.group)->acknowledge(id, request.notice, at);
}

Result<void> Groups::progress(const SessionId& id, const Progress& report, ChangeContext& at) {
  if (Result<const Group*> good = known(report.group); !good) return good.error();
  return open(report.group)->progress(id, report, at);
}

// ---- sessions ----------------------------------------------------------------------------------

void Groups::connected(const SessionId& id, ChangeContext& at) {
  const bool noted = liveness_.connected(id, at.now);
  for (const std::string& name : liveness_.groups_of(id)) {
    Group& group = *open(name);
    group.set_present(id, true);
    if (noted) group.note_time_left(id, Duration::zero(), at);
  }
}

void Groups::disconnected(const SessionId& id, TimePoint now) {
  liveness_.disconnected(id, now);
  for (const std::string& name : liveness_.groups_of(id)) open(name)->set_present(id, false);
}

void Groups::ended(const SessionId& id, const std::string& why, ChangeContext& at) {
  for (const std::string& name : liveness_.groups_of(id)) {
    open(name)->lose(id, why, at);
    liveness_.unwatch(id, name);
  }
}

void Groups::tick(const Sessions& sessions, ChangeContext& at) {
  for (const Liveness::Lost& lost : liveness_.take_lost(sessions, at.now)) {
    ended(lost.id, lost.why, at);
  }
  for (const Liveness::Note& note : liveness_.take_notes()) {
    for (const std::string& name : liveness_.groups_of(note.id)) {
      open(name)->note_time_left(note.id, note.time_left, at);
    }
  }
  while (const auto name = deadlines_.take_due(at.now)) touched_.insert(*name);
}

std::optional<TimePoint> Groups::next_deadline() const {
  const std::optional<TimePoint> check = liveness_.next_deadline();
  const std::optional<TimePoint> group = deadlines_.next();
  if (check && group) return std::min(*check, *group);
  return check ? check : group;
}

std::vector<Groups::ChangedGroup> Groups::settle(ChangeContext& at) {
  std::vector<ChangedGroup> all;
  while (!touched_.empty()) {
    const std::string name = *touched_.begin();
    Group& group = groups_.at(name);
    GroupChanges changes = group.settle(at);
    touched_.erase(name);
    count(name, group);
    if (changes.status) {
      all.push_back({&group, changes.formed, changes.ended, std::move(changes.stalled)});
    }
    deadlines_.erase(name);
    if (const auto next = group.next_deadline()) deadlines_.set(name, *next);
    for (const SessionId& id : changes.members_ended) liveness_.unwatch(id, name);
  }
  return all;
}

bool Groups::are_over() const {
  return std::ranges::all_of(groups_, [](const auto& group) {
    return std::ranges::all_of(group.second.state().members(), [](const auto& member) {
      return member.second.state == GroupMember::State::finished ||
             member.second.state == GroupMember::State::left;
    });
  });
}

const GroupMember* Groups::member(const SessionId& id) const {
  const std::string* const group = liveness_.first_group_of(id);
  return group == nullptr ? nullptr : groups_.at(*group).state().find(id);
}

void Groups::count(const std::string& name, const Group& group) {
  Attendance& old = counted_[name];
  const Attendance now = group.state().attendance();
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
  const Failure damaged = failure(Code::malformed, "damaged row of kind '{}' of group \"{}\"", kind,
                                  printable(name, limits::kNameBytes));
  if (!key.complete() || name.empty() || name.size() > limits::kNameBytes) return damaged;
  StoredGroup& group = stored_.try_emplace(name, name).first->second;
  if (stored_.size() > limits::kGroupsPerJob) return damaged;
  if (kind == 'g') {
    Result<GroupFacts> facts = wire::decode<GroupFacts>(row.value);
    if (!facts) return damaged;
    return group.take(std::move(*facts));
  }
  if (kind == 'm') {
    Result<GroupMember> member = wire::decode<GroupMember>(row.value);
    if (!member) return damaged;
    return group.take(id, std::move(*member));
  }
  Result<MemberList> list = wire::decode<MemberList>(row.value);
  if (!list) return damaged;
  return group.take(std::move(*list));
}

Result<void> Groups::resume(Revision newest, TimePoint now, const AccountRef& account) {
  std::map<SessionId, Duration> noted;
  for (auto& [name, stored] : std::exchange(stored_, {})) {
    Result<GroupState> state = stored.complete(newest);
    if (!state) return state.error();
    state->charge_all(account);
    const Group& group = groups_.try_emplace(name, std::move(*state), now).first->second;
    for (const auto& [id, member] : group.state().members()) {
      if (!member.is_here()) continue;
      liveness_.watch(id, name, group.facts().policy, now);
      noted[id] = std::max(noted[id], member.time_left);
    }
    touched_.insert(name);
    count(name, group);
  }
  for (const auto& [id, time_left] : noted) liveness_.expect_back(id, time_left, now);
  return {};
}

std::size_t Groups::charged() const {
  std::size_t bytes = 0;
  for (const auto& [name, group] : groups_) {
    for (const auto& [id, member] : group.state().members()) bytes += member.charge.bytes();
    for (const StoredNotice& notice : group.facts().notices) bytes += notice.charge.bytes();
  }
  return bytes;
}

Revision Groups::newest() const {
  Revision newest = 0;
  for (const auto& [name, group] : groups_) newest = std::max(newest, group.changed());
  return newest;
}

}  // namespace c10dd::core
