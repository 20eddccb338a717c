// SPDX-License-Identifier: Apache-2.0
// Reads rows. In a batch the list of a generation comes before the facts that name it.
#include "tests/sim/group_log.h"

#include <algorithm>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"

namespace c10dd::sim {
namespace {

using State = core::GroupMember::State;

std::string group_of(const Row& row) { return std::string(core::RowKeyReader(row.key).text()); }

}  // namespace

SessionId member_of(const Row& row) {
  core::RowKeyReader key(row.key);
  static_cast<void>(key.text());
  const std::uint64_t high = key.number();
  return {high, key.number()};
}

const Formation* GroupHistory::list_of(std::uint64_t generation, std::uint64_t order) const {
  const Formation* newest = nullptr;
  for (const Formation& formation : formations) {
    if (formation.generation == generation && formation.durable < order) newest = &formation;
  }
  return newest;
}

GroupLog::GroupLog(const std::vector<Step>& log) {
  for (const Step& step : log) {
    for (const Row& row : step.rows) {
      if (!row.key.empty()) take(step, row);
    }
  }
}

const GroupHistory& GroupLog::of(const std::string& group) const {
  static const GroupHistory none;
  const auto it = groups_.find(group);
  return it == groups_.end() ? none : it->second;
}

void GroupLog::take(const Step& step, const Row& row) {
  const char kind = row.key[0];
  if (kind == 'm') return take_member(step, row);
  if (row.kind != Row::Kind::put) return;
  if (kind == 'a') return take_arrival(step, row);
  if (kind == 'l') {
    if (auto list = wire::decode<core::MemberList>(row.value)) {
      now_[group_of(row)].list = std::move(*list);
    }
  } else if (kind == 'g') {
    if (auto facts = wire::decode<core::GroupFacts>(row.value)) {
      take_facts(step, group_of(row), std::move(*facts));
    }
  }
}

void GroupLog::take_member(const Step& step, const Row& row) {
  Now& now = now_[group_of(row)];
  const SessionId session = member_of(row);
  if (row.kind != Row::Kind::put) {
    now.members.erase(session);
    return;
  }
  auto member = wire::decode<core::GroupMember>(row.value);
  if (!member) return;
  if (member->state != State::here) {
    groups_[group_of(row)].endings.push_back(
        {member->state, session, now.facts.generation, step.durable});
  }
  now.members.insert_or_assign(session, std::move(*member));
}

void GroupLog::take_facts(const Step& step, const std::string& group, core::GroupFacts facts) {
  Now& now = now_[group];
  const auto list = std::exchange(now.list, {});
  const std::uint64_t asked_in = now.facts.round;
  const bool unbroken = now.facts.phase == GroupPhase::formed;
  if (unbroken && facts.phase == GroupPhase::finished) {
    groups_[group].finishes.push_back(step.durable);
  }
  now.facts = std::move(facts);
  if (!list) return;
  Formation formed;
  formed.revision = step.revision;
  formed.durable = step.durable;
  formed.round = now.facts.round;
  formed.generation = now.facts.generation;
  formed.digest = list->digest;
  formed.policy = now.facts.policy;
  formed.unbroken = unbroken;
  formed.sessions = now.sessions = list->sessions;
  for (const auto& [session, member] : now.members) {
    if (member.state != State::here) continue;
    // A session that asked and got no place asks for the next round from now on.
    const bool asks = member.asked && member.asked_in >= asked_in;
    ++formed.living;
    formed.asking += asks ? 1 : 0;
  }
  groups_[group].formations.push_back(std::move(formed));
}

void GroupLog::take_arrival(const Step& step, const Row& row) {
  const auto arrival = wire::decode<core::Arrival>(row.value);
  if (!arrival || arrival->group.empty()) return;
  core::RowKeyReader key(row.key);
  static_cast<void>(key.number());
  static_cast<void>(key.text());
  const Now& now = now_[arrival->group];
  BoundArrival bound;
  bound.revision = step.revision;
  bound.session = arrival->session;
  bound.generation = key.number();
  static_cast<void>(key.number());
  const std::uint64_t rank = key.number();
  const auto& who = arrival->participants;
  bound.place = rank < who.size() ? who[rank] : static_cast<Rank>(rank);
  bound.newest = now.facts.generation;
  bound.works = now.facts.phase == GroupPhase::formed;
  bound.own_place = bound.place < now.sessions.size() && now.sessions[bound.place] == bound.session;
  groups_[arrival->group].arrivals.push_back(bound);
}

}  // namespace c10dd::sim
