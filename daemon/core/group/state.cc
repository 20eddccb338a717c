// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/state.h"

#include <utility>

#include "daemon/core/planted.h"
#include "protocol/fields.h"

namespace c10dd::core {
namespace {

/// Returns the member's rank in the generation that is being replaced; -1 if it had no rank.
std::int64_t previous_rank(const GroupMember& m) { return m.rank >= 0 ? m.rank : m.former_rank; }

MemberList encode_list(const std::vector<SessionId>& sessions,
                       const std::map<SessionId, GroupMember>& members,
                       const std::vector<std::int64_t>& previous) {
  MemberList list;
  list.sessions = sessions;
  list.digest = digest_of(sessions);
  wire::Writer writer(list.encoded);
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    const GroupMember& m = members.at(sessions[rank]);
    list.offsets.push_back(static_cast<std::uint32_t>(list.encoded.size()));
    writer.put(MemberInfo{static_cast<Rank>(rank), m.host, m.pid, m.local_rank, m.device, m.domain,
                          m.labels, m.step, previous[rank]});
  }
  return list;
}

}  // namespace

GroupState::GroupState(std::string name, GroupFacts facts, std::map<SessionId, GroupMember> members,
                       MemberList list)
    : name_(std::move(name)),
      facts_(std::move(facts)),
      members_(std::move(members)),
      list_(std::move(list)),
      encoded_list_(std::make_shared<const Bytes>(std::exchange(list_.encoded, {}))),
      changed_(facts_.status) {
  const bool stands = facts_.phase == GroupPhase::formed && !facts_.policy.quorum;
  for (std::size_t rank = 0; rank < list_.sessions.size(); ++rank) {
    const auto it = members_.find(list_.sessions[rank]);
    if (it == members_.end()) continue;
    GroupMember& member = it->second;
    (stands && asks(member) ? member.former_rank : member.rank) = static_cast<std::int64_t>(rank);
  }
  recount();
}

void GroupState::charge_all(const AccountRef& account) {
  for (auto& [id, member] : members_) member.charge = Charge(account, memory_of_member(member));
  for (StoredNotice& notice : facts_.notices) {
    notice.charge = Charge(account, memory_of_notice(members_.size()));
  }
}

const GroupMember* GroupState::find(const SessionId& id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? nullptr : &it->second;
}

const GroupMember* GroupState::holder(Rank rank) const {
  const GroupMember* m = rank < size() ? find(list_.sessions[rank]) : nullptr;
  return m != nullptr && m->rank == static_cast<std::int64_t>(rank) ? m : nullptr;
}

Attendance GroupState::attendance() const {
  return {counts_.of_list, size() - counts_.of_list - counts_.finished};
}

std::size_t GroupState::requests_for(std::int64_t rank) const {
  const auto it = requested_.find(rank);
  return it == requested_.end() ? 0 : it->second;
}

void GroupState::count(const GroupMember& m, int by) {
  const auto add = [by](std::size_t& n, bool yes) { n += yes ? static_cast<std::size_t>(by) : 0; };
  add(counts_.finished,
      m.former_rank >= 0 || (m.rank >= 0 && m.state == GroupMember::State::finished));
  if (!m.is_here()) return;
  const bool asking = asks(m);
  add(counts_.alive, true);
  add(counts_.asking, asking);
  add(counts_.asking_spares, asking && m.spare);
  add(counts_.asking_away, asking && !m.present);
  add(counts_.asking_old, asking && m.rank >= 0);
  add(counts_.requests, asking && m.requested_rank >= 0);
  if (asking && m.requested_rank >= 0) add(requested_[m.requested_rank], true);
  add(counts_.expected, !asking && m.rank >= 0);
  add(counts_.of_list, m.rank >= 0);
}

void GroupState::recount() {
  counts_ = {};
  requested_.clear();
  for (const auto& [id, m] : members_) count(m, 1);
}

// ---- changes -----------------------------------------------------------------------------------

GroupFacts& GroupState::edit_facts() {
  row_changed_ = true;
  return facts_;
}

void GroupState::add(const SessionId& id) {
  const auto [it, is_new] = members_.try_emplace(id);
  if (is_new) count(it->second, 1);
}

void GroupState::put(const SessionId& id, ChangeContext& at) const {
  if (planted(Planted::member_row_lost)) return;
  at.rows.push_back({Row::Kind::put, member_key(name_, id), wire::encode(members_.at(id))});
}

void GroupState::remove(const SessionId& id, ChangeContext& at) {
  count(members_.at(id), -1);
  members_.erase(id);
  at.rows.push_back({Row::Kind::erase, member_key(name_, id), {}});
}

void GroupState::start(const NextGeneration& next, ChangeContext& at) {
  std::vector<std::int64_t> previous;
  // The previous ranks are read before the next loop resets them.
  for (const SessionId& id : next.members) previous.push_back(previous_rank(members_.at(id)));
  for (auto& [id, m] : members_) m.rank = m.former_rank = -1;
  for (std::size_t rank = 0; rank < next.members.size(); ++rank) {
    members_.at(next.members[rank]).rank = static_cast<std::int64_t>(rank);
  }
  GroupFacts& facts = edit_facts();
  ++facts.round;
  facts.generation = next.number;
  facts.phase = GroupPhase::formed;
  facts.reason = next.reason;
  for (const SessionId& id : next.parked) {
    members_.at(id).asked_in = facts.round;
    put(id, at);
  }
  forget_ended(at);
  recount();
  list_ = encode_list(next.members, members_, previous);
  at.rows.push_back({Row::Kind::put, group_key('l', name_), wire::encode(list_)});
  encoded_list_ = std::make_shared<const Bytes>(std::exchange(list_.encoded, {}));
  note_status_change(at);
}

/// Removes the members that have ended. Their rows were kept only to describe the ranks of their
/// generation.
void GroupState::forget_ended(ChangeContext& at) {
  for (auto it = members_.begin(); it != members_.end();) {
    const bool gone = !it->second.is_here();
    if (gone) at.rows.push_back({Row::Kind::erase, member_key(name_, it->first), {}});
    it = gone ? members_.erase(it) : std::next(it);
  }
}

void GroupState::note_status_change(ChangeContext& at) {
  edit_facts().status = at.revision;
  note_change(at.revision);
  renew_version();
  status_changed_ = true;
}

bool GroupState::settle(ChangeContext& at) {
  if (std::exchange(row_changed_, false)) {
    at.rows.push_back({Row::Kind::put, group_key('g', name_), wire::encode(facts_)});
  }
  return std::exchange(status_changed_, false);
}

}  // namespace c10dd::core
