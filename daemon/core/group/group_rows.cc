// SPDX-License-Identifier: Apache-2.0
// What a restart finds of a group. Nothing is taken up that would let it break a promise later: a
// rank that two have, a member that can never go, an answer from the future.
#include <algorithm>
#include <set>

#include "daemon/core/group/group.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

template <class T>
bool distinct(std::vector<T> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) == values.end();
}

/// Whether each member can be cut out of the list, and stands where it says.
bool readable(const MemberList& list) {
  const std::size_t size = list.offsets.size();
  if (size == 0) return list.encoded.empty();
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::size_t from = rank == 0 ? 0 : list.offsets[rank];
    const std::size_t to = rank + 1 == size ? list.encoded.size() : list.offsets[rank + 1];
    if (list.offsets[rank] != from || from >= to || to > list.encoded.size()) return false;
    wire::Reader reader(std::string_view(list.encoded).substr(from, to - from));
    MemberInfo member;
    reader.get(member);
    if (!reader.ok() || !reader.at_end() || member.rank != rank) return false;
  }
  return true;
}

}  // namespace

Failure Group::misfit(const std::string& what) const {
  return failure(Code::malformed, "group \"" + printable(name_, limits::kNameBytes) +
                                      "\": its rows do not fit together: " + what);
}

std::uint64_t digest_of(const std::vector<SessionId>& sessions) {
  Bytes places;
  wire::Writer(places).put(sessions);
  return native::fingerprint(ReadMembers::op.code, places);
}

// ---- rows by themselves ------------------------------------------------------------------------

Row Group::row() const { return {Row::Kind::put, group_key('g', name_), wire::encode(facts_)}; }

Result<void> Group::restore(GroupFacts facts) {
  facts_ = std::move(facts);
  changed_ = facts_.news;
  has_row_ = true;
  return {};
}

Result<void> Group::restore(const SessionId& id, GroupMember member) {
  const bool here = member.state == GroupMember::State::here;
  if (member.state > GroupMember::State::lost || id == SessionId{} || member.joined == 0 ||
      member.host.size() > limits::kNameBytes || here != member.asked) {
    return misfit("the row of a member is none");
  }
  members_[id] = std::move(member);
  return {};
}

Result<void> Group::restore(MemberList list) {
  const std::size_t size = list.sessions.size();
  if (size != list.offsets.size() || size > limits::kWorldSize || !readable(list)) {
    return misfit("its list cannot be read");
  }
  if (!distinct(list.sessions)) return misfit("a member has two ranks");
  if (list.digest != digest_of(list.sessions)) return misfit("its list has another digest");
  encoded_ = std::make_shared<const Bytes>(std::move(list.encoded));
  *list_ = std::move(list);
  return {};
}

// ---- rows together -----------------------------------------------------------------------------

Result<void> Group::resume(Revision newest, TimePoint now) {
  if (Result<void> good = check_facts(newest); !good) return good;
  if (Result<void> good = check_members(newest); !good) return good;
  if (Result<void> good = check_claims(); !good) return good;
  for (std::size_t rank = 0; rank < list_->sessions.size(); ++rank) {
    const auto it = members_.find(list_->sessions[rank]);
    if (it == members_.end()) return misfit("a rank of its list is no member");
    GroupMember& member = it->second;
    member.rank = static_cast<std::int64_t>(rank);
    const bool here = member.state == GroupMember::State::here;
    const bool again = here && asks(member) && facts_.phase == GroupPhase::formed;
    if (again && !facts_.policy.quorum) member.former_rank = std::exchange(member.rank, -1);
    if (member.state == GroupMember::State::finished || member.former_rank >= 0) ++finished_;
  }
  counts_ = {};
  for (const auto& [id, member] : members_) count(member, 1);
  if (Result<void> good = check_list(); !good) return good;
  if (Result<void> good = count_notices(); !good) return good;
  for (const StoredNotice& notice : facts_.notices) {
    if (notice.deadline > Duration::zero()) notices_end_[notice.number] = now + notice.deadline;
  }
  return {};
}

Result<void> Group::check_facts(Revision newest) const {
  if (!has_row_) return misfit("its own row is lost");
  if (Result<void> good = check_policy(facts_.policy); !good) return misfit(good.error().detail);
  if (facts_.phase > GroupPhase::finished) return misfit("it is in no phase");
  if (facts_.news > newest) {
    return misfit("news of revision " + std::to_string(facts_.news) + " in a job of revision " +
                  std::to_string(newest));
  }
  // Every round has a list; not every list is a new generation, and not every one has failed.
  if (facts_.generation > facts_.round || facts_.failures > facts_.generation) {
    return misfit("round " + std::to_string(facts_.round) + ", generation " +
                  std::to_string(facts_.generation) + ", failures " +
                  std::to_string(facts_.failures));
  }
  return {};
}

Result<void> Group::check_members(Revision newest) const {
  std::vector<Revision> order;
  for (const auto& [id, m] : members_) {
    if (m.joined > newest) {
      return misfit("a member of revision " + std::to_string(m.joined) + " in a job of revision " +
                    std::to_string(newest));
    }
    if (m.asked_in > facts_.round) {
      return misfit("a member asked in round " + std::to_string(m.asked_in) + " of " +
                    std::to_string(facts_.round));
    }
    order.push_back(m.joined);
  }
  if (!distinct(std::move(order))) return misfit("two members have joined at once");
  return {};
}

Result<void> Group::check_claims() const {
  const RendezvousPolicy& policy = facts_.policy;
  std::vector<std::int64_t> claims;
  std::size_t asking = 0;
  for (const auto& [id, m] : members_) {
    if (m.state != GroupMember::State::here) continue;
    if (m.claimed_rank >= 0 &&
        (policy.min != policy.max || m.claimed_rank >= policy.max || policy.quorum || m.spare)) {
      return misfit("rank " + std::to_string(m.claimed_rank) + " is claimed");
    }
    if (!asks(m)) continue;
    ++asking;
    if (m.claimed_rank >= 0) claims.push_back(m.claimed_rank);
  }
  if (!claims.empty() && claims.size() != asking) return misfit("some claim a rank, some do not");
  if (!distinct(std::move(claims))) return misfit("two claim the same rank");
  return {};
}

/// After the ranks were given out.
Result<void> Group::check_list() const {
  const RendezvousPolicy& policy = facts_.policy;
  const GroupPhase phase = facts_.phase;
  if ((facts_.round == 0) != (size() == 0)) {
    return misfit("a list of " + std::to_string(size()) + " in round " +
                  std::to_string(facts_.round));
  }
  if (size() == 0 && (phase == GroupPhase::formed || phase == GroupPhase::broken)) {
    return misfit("a generation of nobody");
  }
  if (phase == GroupPhase::formed && counts_.of_list == 0) {
    return misfit("a generation that all have left");
  }
  // A quorum's last member may come back under another policy before the next round.
  const bool fits = size() >= policy.min && size() <= policy.max;
  if (phase == GroupPhase::formed && !policy.quorum && !fits) {
    return misfit("a list of " + std::to_string(size()) + ", min " + std::to_string(policy.min) +
                  ", max " + std::to_string(policy.max));
  }
  if (phase == GroupPhase::finished && counts_.expected > 0) {
    return misfit("a member at work where all have finished");
  }
  for (const auto& [id, m] : members_) {
    const bool has_ended = m.state != GroupMember::State::here;
    if (has_ended && m.rank < 0) return misfit("a member has ended and has no rank");
  }
  return {};
}

Result<void> Group::count_notices() {
  if (facts_.notices.size() > limits::kNotices) return misfit("too many notices");
  std::uint64_t last = 0;
  for (const StoredNotice& notice : facts_.notices) {
    if (notice.number <= last || notice.number > facts_.notices_made) {
      return misfit("notice " + std::to_string(notice.number) + " of " +
                    std::to_string(facts_.notices_made));
    }
    last = notice.number;
    if (notice.kind > Notice::Kind::preempt || notice.deadline < Duration::zero() ||
        notice.deadline > limits::kTimeoutMax) {
      return misfit("notice " + std::to_string(last) +
                    " has another kind or deadline than one can have");
    }
  }
  for (const auto& [id, m] : members_) {
    if (m.state != GroupMember::State::here && !m.notices.empty()) {
      return misfit("a notice names who is not here");
    }
    std::uint64_t before = 0;
    for (const NoticeMark& mark : m.notices) {
      const auto notice = std::ranges::find(facts_.notices, mark.number, &StoredNotice::number);
      if (notice == facts_.notices.end() || mark.number <= before) {
        return misfit("a member is named by notice " + std::to_string(mark.number) +
                      ", which is none, or twice");
      }
      before = mark.number;
      ++notice->named;
      if (!mark.acknowledged) ++notice->open;
    }
  }
  for (const StoredNotice& notice : facts_.notices) {
    if (notice.named > 0) continue;
    return misfit("notice " + std::to_string(notice.number) + " names nobody");
  }
  return {};
}

}  // namespace c10dd::core
