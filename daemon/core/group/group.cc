// SPDX-License-Identifier: Apache-2.0
// Coming, going and being lost. Forming is in group_form.cc, what is told in group_news.cc, what a
// restart finds in group_rows.cc. Rows: 'g' group, 'm' group and session, 'l' group.
#include "daemon/core/group/group.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

std::string text_of(const RendezvousPolicy& policy) {
  return "min " + std::to_string(policy.min) + ", max " + std::to_string(policy.max) +
         ", last call " + human(policy.last_call) + (policy.quorum ? ", quorum" : "");
}

std::string who(const GroupMember& member) {
  return printable(member.host, limits::kNameBytes) + " (pid " + std::to_string(member.pid) + ")";
}

std::string rank_of(const GroupMember& member) {
  return "rank " + std::to_string(member.rank) + " on " + who(member);
}

std::string bounded(const std::string& detail) {
  return printable(detail.substr(0, limits::kReasonBytes), limits::kReasonBytes);
}

}  // namespace

Result<void> check_policy(const RendezvousPolicy& policy) {
  if (policy.min < 1 || policy.max < policy.min || policy.max > limits::kWorldSize) {
    return failure(Code::invalid_argument,
                   "min " + std::to_string(policy.min) + ", max " + std::to_string(policy.max) +
                       "; min is at least 1 and at most max, and max at most " +
                       std::to_string(limits::kWorldSize));
  }
  for (const Duration d : {policy.last_call, policy.ttl, policy.grace}) {
    if (d >= Duration::zero() && d <= limits::kTimeoutMax) continue;
    return failure(Code::invalid_argument, "last call, ttl and grace are 0 to " +
                                               human(limits::kTimeoutMax) + ", not " + human(d));
  }
  return {};
}

Bytes group_key(char kind, const std::string& name) { return RowKey(kind).text(name).take(); }

Bytes member_key(const std::string& name, const SessionId& id) {
  return RowKey('m').text(name).number(id.high).number(id.low).take();
}

const GroupMember* Group::find(const SessionId& id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? nullptr : &it->second;
}

// ---- the books ---------------------------------------------------------------------------------

void Group::count(const GroupMember& m, int by) {
  if (m.state != GroupMember::State::here) return;
  const auto add = [by](std::size_t& n, bool yes) { n += yes ? static_cast<std::size_t>(by) : 0; };
  const bool asking = asks(m);
  add(counts_.alive, true);
  add(counts_.asking, asking);
  add(counts_.asking_spares, asking && m.spare);
  add(counts_.asking_away, asking && !m.present);
  add(counts_.asking_old, asking && m.rank >= 0);
  add(counts_.claims, asking && m.claimed_rank >= 0);
  if (asking && m.claimed_rank >= 0) add(claims_[m.claimed_rank], true);
  add(counts_.expected, !asking && m.rank >= 0);
  add(counts_.of_list, m.rank >= 0);
}

template <class F>
void Group::change(GroupMember& member, F&& f) {
  count(member, -1);
  f(member);
  count(member, 1);
}

void Group::put(const SessionId& id, const GroupMember& member, Moment& at) const {
  if (planted(Planted::member_row_lost)) return;
  at.rows.push_back({Row::Kind::put, member_key(name_, id), wire::encode(member)});
}

/// The members hear of it.
void Group::tell(Moment& at) {
  facts_.news = at.revision;
  changed_ = at.revision;
  dirty = true;
  told = true;
  newest_news_.reset();
}

// ---- joining -----------------------------------------------------------------------------------

Result<void> Group::check(const SessionId& id, const Join& request) const {
  const RendezvousPolicy& policy = request.policy;
  const std::string prefix = "rendezvous \"" + printable(name_, limits::kNameBytes) + "\": ";
  if (request.round > facts_.round) {
    return failure(Code::invalid_argument, prefix + "round " + std::to_string(request.round) +
                                               " is asked to follow, the newest is " +
                                               std::to_string(facts_.round));
  }
  const GroupMember* own = find(id);
  const bool own_here = own != nullptr && own->state == GroupMember::State::here;
  const bool others = counts_.alive > (own_here ? 1 : 0);
  if (others && !(policy == facts_.policy)) {
    return failure(Code::size_mismatch, prefix + "this member says " + text_of(policy) +
                                            "; the group has " + text_of(facts_.policy) +
                                            "; all members must say the same");
  }
  const bool own_asks = own_here && asks(*own);
  const std::size_t asking = counts_.asking - (own_asks ? 1 : 0);
  const std::size_t claims = counts_.claims - (own_asks && own->claimed_rank >= 0 ? 1 : 0);
  if (asking > 0 && (claims > 0) != (request.rank >= 0)) {
    return failure(Code::size_mismatch,
                   prefix + "either all members say which rank they must get, or none does");
  }
  const bool own_claim = own_asks && own->claimed_rank == request.rank;
  const auto claimed = claims_.find(request.rank);
  const bool taken =
      request.rank >= 0 && claimed != claims_.end() && claimed->second > (own_claim ? 1 : 0);
  for (const auto& [other, member] : members_) {
    if (!taken) break;
    if (other == id || member.state != GroupMember::State::here || !asks(member)) continue;
    if (member.claimed_rank != request.rank) continue;
    return failure(Code::rank_taken, prefix + "rank " + std::to_string(request.rank) +
                                         " is claimed by " + who(member) +
                                         " already; give each process its own rank");
  }
  if (own == nullptr && members_.size() >= limits::kSessionsPerJob) {
    return failure(Code::quota_exceeded,
                   prefix + "too many members, limit " + std::to_string(limits::kSessionsPerJob));
  }
  return {};
}

/// Who has finished in a generation that stands is a newcomer to it.
void Group::come_back(GroupMember& member) {
  const bool stands = facts_.phase == GroupPhase::formed && !facts_.policy.quorum;
  if (stands) {
    member.former_rank = std::exchange(member.rank, -1);
  } else if (member.state == GroupMember::State::finished) {
    --finished_;
  }
}

Result<void> Group::join(const SessionId& id, const Session& session, const Join& request,
                         Moment& at) {
  const auto old = members_.find(id);
  if (old != members_.end() && old->second.state == GroupMember::State::here) {
    if (asks(old->second)) return {};                                      // a repeat re-attaches
    if (old->second.rank >= 0 && request.round < facts_.round) return {};  // likewise, late
  }
  if (Result<void> good = check(id, request); !good) return good;
  dirty = dirty || !(facts_.policy == request.policy) || facts_.round == 0;
  facts_.policy = request.policy;
  if (facts_.phase == GroupPhase::finished) {
    facts_.phase = GroupPhase::forming;
    dirty = true;
  }
  const auto [place, fresh] = members_.try_emplace(id);
  GroupMember& member = place->second;
  if (fresh) count(member, 1);
  const bool here = member.state == GroupMember::State::here;
  const bool of_generation = here && member.rank >= 0;
  if (!here && member.rank >= 0) come_back(member);
  const std::uint32_t waited = waiting();
  change(member, [&](GroupMember& m) {
    m.host = session.host;
    m.pid = session.pid;
    m.local_rank = request.local_rank;
    m.device = request.device;
    m.domain = request.domain;
    m.labels = request.labels;
    m.claimed_rank = request.rank;
    m.spare = request.spare;
    m.step = request.step;
    m.failed = request.failed;
    if (m.joined == 0) m.joined = at.revision;
    m.asked = true;
    m.asked_in = facts_.round;
    m.state = GroupMember::State::here;
    m.ending.clear();
    m.present = session.connected;
    m.stalled = false;
  });
  changed_ = at.revision;
  put(id, member, at);
  if (of_generation && !facts_.policy.quorum && facts_.phase == GroupPhase::formed) {
    break_up(rank_of(member) + " asks for a new generation", false, at);
  } else if (waiting() != waited) {
    tell(at);
  }
  return {};
}

void Group::withdraw(const SessionId& id, const std::string& detail, Moment& at) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.state != GroupMember::State::here) return;
  if (!asks(it->second)) return;
  if (it->second.rank >= 0) break_up(rank_of(it->second) + " has left: " + detail, false, at);
  end(id, GroupMember::State::left, detail, at);
}

void Group::set_present(const SessionId& id, bool present) {
  const auto it = members_.find(id);
  if (it == members_.end()) return;
  change(it->second, [&](GroupMember& m) { m.present = present; });
  if (it->second.stalled) newest_news_.reset();  // its cause is another one
}

// ---- ending ------------------------------------------------------------------------------------

void Group::leave(const SessionId& id, Leave::Kind kind, const std::string& detail, Moment& at) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.state != GroupMember::State::here) return;
  const std::string why = detail.empty() ? std::string() : ": " + bounded(detail);
  const GroupMember& member = it->second;
  const bool of_generation = member.rank >= 0;
  const std::string name = of_generation ? rank_of(member) : who(member);
  switch (kind) {
    case Leave::Kind::finish:
      end(id, GroupMember::State::finished, "finished" + why, at);
      // Who had no place yet ends nothing for those who gather.
      if (of_generation) finish_if_done(at);
      return;
    case Leave::Kind::fail:
      if (of_generation) break_up(name + " has failed" + why, true, at);
      return end(id, GroupMember::State::left, "failed" + why, at);
    case Leave::Kind::leave:
      if (of_generation) break_up(name + " has left" + why, false, at);
      return end(id, GroupMember::State::left, "left" + why, at);
  }
}

void Group::lose(const SessionId& id, const std::string& detail, Moment& at) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.state != GroupMember::State::here) return;
  if (it->second.rank >= 0) break_up(rank_of(it->second) + " is lost: " + detail, false, at);
  end(id, GroupMember::State::lost, detail, at);
}

/// It takes part no more. What is known of a rank of the generation is kept until the next one has
/// formed, because the others ask what became of it.
void Group::end(const SessionId& id, GroupMember::State state, const std::string& detail,
                Moment& at) {
  const auto it = members_.find(id);
  GroupMember& member = it->second;
  forget_noticed(member);
  ended_.push_back(id);
  if (member.rank >= 0 && state == GroupMember::State::finished) ++finished_;
  if (member.stalls_at) stall_times_.erase({*member.stalls_at, id});
  if (member.former_rank >= 0) {
    change(member, [&](GroupMember& m) {  // it only wanted to come back
      m.rank = std::exchange(m.former_rank, -1);
      m.state = GroupMember::State::finished;
      m.ending = "finished";
      m.asked = false;
    });
    put(id, member, at);
  } else if (member.rank < 0) {
    count(member, -1);
    members_.erase(it);
    at.rows.push_back({Row::Kind::erase, member_key(name_, id), {}});
  } else {
    change(member, [&](GroupMember& m) {
      m.state = state;
      m.ending = detail;
      m.asked = false;
      m.stalled = false;
      m.stalls_at.reset();
    });
    put(id, member, at);
  }
  tell(at);
}

/// The generation ends; its first failure stays its reason.
void Group::break_up(std::string reason, bool failed, Moment& at) {
  if (facts_.phase == GroupPhase::formed) {
    facts_.phase = GroupPhase::broken;
    ended = true;
    facts_.reason = std::move(reason);
    if (failed) ++facts_.failures;
    last_call_.reset();
  }
  tell(at);
}

void Group::finish_if_done(Moment& at) {
  if (counts_.of_list > 0) return;
  facts_.phase = GroupPhase::finished;
  facts_.reason = "all members have finished";
  tell(at);
}

}  // namespace c10dd::core
