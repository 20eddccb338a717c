// SPDX-License-Identifier: Apache-2.0
// take() checks each row on its own; complete() checks all rows together.
#include "daemon/core/group/stored_group.h"

#include <algorithm>
#include <set>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

Failure misfit(const std::string& group, const std::string& what) {
  return failure(Code::malformed, "group \"{}\": its stored rows are inconsistent: {}",
                 printable(group, limits::kNameBytes), what);
}

Failure misfit(const GroupState& state, const std::string& what) {
  return misfit(state.name(), what);
}

bool is_time_left(Duration noted) {
  return noted >= Duration::zero() && noted <= limits::kTimeoutMax;
}

template <class T>
bool distinct(std::vector<T> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) == values.end();
}

/// Returns true if the offsets split the encoded list into members, and if the rank in each member
/// is the member's position in the list.
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

Result<void> check_facts(const GroupState& state, Revision newest) {
  const GroupFacts& facts = state.facts();
  if (Result<void> good = check_policy(facts.policy); !good) {
    return misfit(state, good.error().detail);
  }
  if (facts.phase > GroupPhase::finished) return misfit(state, "unknown phase");
  if (!is_time_left(facts.last_call_left)) return misfit(state, "an invalid last call");
  if (facts.status > newest) {
    return misfit(state, format("the status has revision {}, but the job is at revision {}",
                                facts.status, newest));
  }
  // A round starts at most one generation, and a generation fails at most once.
  if (facts.generation > facts.round || facts.failures > facts.generation) {
    return misfit(state, format("impossible counts: round {}, generation {}, failures {}",
                                facts.round, facts.generation, facts.failures));
  }
  return {};
}

Result<void> check_members(const GroupState& state, Revision newest) {
  const std::uint64_t round = state.facts().round;
  std::vector<Revision> order;
  for (const auto& [id, m] : state.members()) {
    if (m.joined > newest) {
      return misfit(
          state, format("a member joined at revision {}, but the job is at {}", m.joined, newest));
    }
    if (m.asked_in > round) {
      return misfit(state, format("a member asked to join in round {}, but the newest is {}",
                                  m.asked_in, round));
    }
    order.push_back(m.joined);
  }
  if (!distinct(std::move(order)))
    return misfit(state, "two members have joined at the same revision");
  return {};
}

Result<void> check_requested_ranks(const GroupState& state) {
  const RendezvousPolicy& policy = state.facts().policy;
  std::vector<std::int64_t> requests;
  std::size_t asking = 0;
  for (const auto& [id, m] : state.members()) {
    if (!m.is_here()) continue;
    if (m.requested_rank >= 0 &&
        (policy.min != policy.max || m.requested_rank >= policy.max || policy.quorum || m.spare)) {
      return misfit(state, format("a member requests rank {}, which the policy does not allow",
                                  m.requested_rank));
    }
    if (!state.asks(m)) continue;
    ++asking;
    if (m.requested_rank >= 0) requests.push_back(m.requested_rank);
  }
  if (!requests.empty() && requests.size() != asking) {
    return misfit(state, "only some members request a rank");
  }
  if (!distinct(std::move(requests))) return misfit(state, "two members request the same rank");
  return {};
}

Result<void> check_list(const GroupState& state) {
  const RendezvousPolicy& policy = state.facts().policy;
  const GroupPhase phase = state.facts().phase;
  const std::uint32_t size = state.size();
  for (const SessionId& id : state.list().sessions) {
    if (state.find(id) == nullptr) return misfit(state, "the member list has an unknown session");
  }
  if ((state.facts().round == 0) != (size == 0)) {
    return misfit(state, format("the member list has {} members, but the round is {}", size,
                                state.facts().round));
  }
  if (size == 0 && (phase == GroupPhase::formed || phase == GroupPhase::broken)) {
    return misfit(state, "a generation without members");
  }
  if (phase == GroupPhase::formed && state.counts().of_list == 0) {
    return misfit(state, "a formed generation has no member that is alive");
  }
  // The size of a quorum is not checked, because the policy can be newer than the member list: the
  // only alive member can join again with a different policy before the next round.
  const bool fits = size >= policy.min && size <= policy.max;
  if (phase == GroupPhase::formed && !policy.quorum && !fits) {
    return misfit(state, format("the member list has {} members, but min is {} and max is {}", size,
                                policy.min, policy.max));
  }
  if (phase == GroupPhase::finished && state.counts().expected > 0) {
    return misfit(state, "the group has finished, but a member has not");
  }
  for (const auto& [id, m] : state.members()) {
    if (!m.is_here() && m.rank < 0) {
      return misfit(state, "the rank of a member that has ended is missing");
    }
  }
  return {};
}

Result<void> check_notices(const GroupState& state) {
  const GroupFacts& facts = state.facts();
  if (facts.notices.size() > limits::kNotices) return misfit(state, "too many notices");
  std::uint64_t last = 0;
  for (const StoredNotice& notice : facts.notices) {
    if (notice.number <= last || notice.number > facts.notices_made) {
      return misfit(state, format("notice number {} is invalid, {} notices were made",
                                  notice.number, facts.notices_made));
    }
    last = notice.number;
    if (notice.kind > Notice::Kind::preempt || notice.deadline < Duration::zero() ||
        notice.deadline > limits::kTimeoutMax || !is_time_left(notice.time_left)) {
      return misfit(state, format("notice {} has an invalid kind or deadline", last));
    }
  }
  return {};
}

/// Checks that each member refers to existing notices, and that each notice names a member.
Result<void> check_notice_receipts(const GroupState& state) {
  const std::vector<StoredNotice>& notices = state.facts().notices;
  std::set<std::uint64_t> naming;
  for (const auto& [id, m] : state.members()) {
    if (!m.is_here() && !m.notices.empty()) {
      return misfit(state, "a notice names a member that has ended");
    }
    std::uint64_t before = 0;
    for (const NoticeReceipt& receipt : m.notices) {
      const auto notice = std::ranges::find(notices, receipt.number, &StoredNotice::number);
      if (notice == notices.end() || receipt.number <= before) {
        return misfit(
            state, format("a member refers to notice {}, which does not exist or is out of order",
                          receipt.number));
      }
      before = receipt.number;
      naming.insert(receipt.number);
    }
  }
  for (const StoredNotice& notice : notices) {
    if (naming.contains(notice.number)) continue;
    return misfit(state, format("notice {} names no member", notice.number));
  }
  return {};
}

Result<void> check(const GroupState& state, Revision newest) {
  if (Result<void> good = check_facts(state, newest); !good) return good;
  if (Result<void> good = check_members(state, newest); !good) return good;
  if (Result<void> good = check_requested_ranks(state); !good) return good;
  if (Result<void> good = check_list(state); !good) return good;
  if (Result<void> good = check_notices(state); !good) return good;
  return check_notice_receipts(state);
}

}  // namespace

Result<void> StoredGroup::take(GroupFacts facts) {
  facts_ = std::move(facts);
  return {};
}

Result<void> StoredGroup::take(const SessionId& id, GroupMember member) {
  if (member.state > GroupMember::State::lost || id == SessionId{} || member.joined == 0 ||
      member.host.size() > limits::kNameBytes || member.is_here() != member.asked ||
      !is_time_left(member.time_left)) {
    return misfit(name_, "malformed member row");
  }
  members_[id] = std::move(member);
  return {};
}

Result<void> StoredGroup::take(MemberList list) {
  const std::size_t size = list.sessions.size();
  if (size != list.offsets.size() || size > limits::kWorldSize || !readable(list)) {
    return misfit(name_, "the member list cannot be read");
  }
  if (!distinct(list.sessions)) return misfit(name_, "a member has two ranks");
  if (list.digest != digest_of(list.sessions))
    return misfit(name_, "the member list does not match its digest");
  list_ = std::move(list);
  return {};
}

Result<GroupState> StoredGroup::complete(Revision newest) {
  if (!facts_) return misfit(name_, "its own row is missing");
  GroupState state(name_, std::move(*facts_), std::move(members_), std::move(list_));
  if (Result<void> good = check(state, newest); !good) return good.error();
  return state;
}

}  // namespace c10dd::core
