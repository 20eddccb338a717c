// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges: checks what is asked, takes arrivals, releases or breaks, also those that
// are bound to a generation. What becomes of a rank that an earlier process held is in
// job_relaunch.cc.
#include <algorithm>
#include <functional>

#include "daemon/core/job_step.h"
#include "daemon/core/missing.h"
#include "daemon/core/planted.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

/// What a blocked arrival needs to be answered: not what it brought, which the meeting has.
Barrier without_load(const Barrier& b) {
  return {b.group, b.generation, b.sequence, b.rank, b.world_size, b.timeout, b.world, {}};
}
Exchange without_load(const Exchange& e) {
  return {e.group, e.generation, e.sequence, e.rank,   e.world_size, e.shape,
          e.root,  {},           e.timeout,  e.offset, e.world,      {}};
}

template <class Op>
Result<void> check_meeting(const Op& op) {
  if (op.group.size() > limits::kNameBytes) {
    return failure(Code::too_large, std::string(Op::op.name) + ": group name of " +
                                        std::to_string(op.group.size()) + " bytes, limit " +
                                        std::to_string(limits::kNameBytes));
  }
  if (op.world_size == 0 || op.world_size > limits::kWorldSize || op.rank >= op.world_size) {
    return failure(Code::invalid_argument,
                   describe(meeting_key(op)) + ": rank " + std::to_string(op.rank) +
                       " of world size " + std::to_string(op.world_size) +
                       "; the world size is 1 to " + std::to_string(limits::kWorldSize) +
                       " and the rank is below it");
  }
  if (op.world.empty() && !op.participants.empty()) {
    return failure(Code::invalid_argument,
                   describe(meeting_key(op)) + ": participants are ranks of a group: name it");
  }
  return {};
}

}  // namespace

MeetingKey meeting_key(const Barrier& b) {
  return {MeetingKey::Kind::barrier, b.group, b.generation, b.sequence};
}
MeetingKey meeting_key(const Exchange& e) {
  return {MeetingKey::Kind::exchange, e.group, e.generation, e.sequence};
}

Job::Maybe Job::on(Step& step, const Barrier& barrier) {
  Arrival arrival;
  arrival.session = step.from.session;
  arrival.world_size = barrier.world_size;
  arrival.world = barrier.world;
  arrival.participants = barrier.participants;
  return meet(step, barrier, meeting_key(barrier), std::move(arrival));
}

Job::Maybe Job::on(Step& step, const Exchange& exchange) {
  const MeetingKey key = meeting_key(exchange);
  if (exchange.offset > 0) {
    const Meeting* meeting = meetings_.find(key);
    if (meeting == nullptr || !meeting->complete || meeting->broken ||
        meeting->holder(exchange.rank) == nullptr ||
        *meeting->holder(exchange.rank) != step.from.session) {
      return Answer(failure(
          Code::outcome_unknown,
          describe(key) + ": no answer to continue at byte " + std::to_string(exchange.offset)));
    }
    return answer_now(exchange, step.observed);
  }
  return meet(step, exchange, key,
              {step.from.session, exchange.world_size, exchange.shape, exchange.root,
               exchange.parts, exchange.world, exchange.participants});
}

/// The operation with what its arrival must fulfil, in order: it is well formed; its world lets it
/// take part, or nobody else has its rank; it arrives; all have.
template <class Op>
Job::Maybe Job::meet(Step& step, const Op& op, const MeetingKey& key, Arrival arrival) {
  if (Result<void> good = check_meeting(op); !good) return good.error();
  if constexpr (std::is_same_v<Op, Exchange>) {
    if (op.root >= op.world_size) {
      return Answer(
          failure(Code::invalid_argument, describe(key) + ": root " + std::to_string(op.root) +
                                              " of world size " + std::to_string(op.world_size)));
    }
    if (Result<void> good = check_parts(key, op.rank, arrival); !good) return good.error();
  }
  const Meeting* known = meetings_.find(key);
  if (op.world.empty()) {
    const Way way = make_way(step, key, op.rank, arrival);
    if (!way) return Answer(way.error());
    if (*way) return wait_for_absent(step, op, **way, op.timeout);
  } else if (known == nullptr || !known->complete) {
    if (auto reason = check_bound(step, key, op.rank, arrival)) {
      step.observe(groups_.newest());
      return Answer(std::move(*reason));
    }
  }
  Result<const Meeting*> meeting = meetings_.arrive(key, op.rank, std::move(arrival), sessions_,
                                                    step.next, step.now, step.out.rows);
  if (!meeting) return meeting.error();
  if (!op.world.empty() && !(*meeting)->complete) {
    if (auto reason = hopeless(key, **meeting, step.now)) {
      meetings_.fail(key, std::move(*reason), step.next, step.out.rows);
      step.fired.push_back(token_of(key));
    }
  }
  if (!(*meeting)->complete) return block(step, without_load(op), {token_of(key)}, op.timeout);
  if ((*meeting)->revision == step.next && !(*meeting)->broken) released(step, key);
  return answer_now(op, step.observed);
}

void Job::released(Step& step, const MeetingKey& key) {
  step.fired.push_back(token_of(key));
  step.out.events.push_back(MeetingReleased{step.now - meetings_.find(key)->first_arrival});
}

// ---- bound to the generation of a group --------------------------------------------------------

void Job::break_meetings(Step& step, const Group& group) {
  for (const MeetingKey& key : meetings_.of_world(group.name())) {
    const Meeting& meeting = *meetings_.find(key);
    const bool ended =
        key.generation != group.facts().generation || group.facts().phase != GroupPhase::formed;
    if (ended) {
      meetings_.fail(key, group.broken(), step.next, step.out.rows);
    } else if (auto reason = hopeless(key, meeting, step.now)) {
      meetings_.fail(key, std::move(*reason), step.next, step.out.rows);
    } else {
      continue;
    }
    step.fired.push_back(token_of(key));
  }
}

/// Why a bound meeting can never be complete: participants whose work is done have not come.
std::optional<Failure> Job::hopeless(const MeetingKey& key, const Meeting& meeting,
                                     TimePoint now) const {
  const Group* group = groups_.find(meeting.world);
  if (group == nullptr || !group->has_ended_members()) return std::nullopt;
  std::vector<Rank> gone;
  for (const Rank rank : meeting.missing()) {
    const GroupMember* m = group->holder(meeting.in_world(rank));
    if (m == nullptr || m->state != GroupMember::State::here) gone.push_back(rank);
  }
  if (gone.empty()) return std::nullopt;
  Failure reason =
      failure(Code::aborted, describe(key) + " is broken: ranks " + fold(gone) + " will not come");
  for (std::size_t i = 0; i < std::min(gone.size(), limits::kMissingNamed); ++i) {
    reason.missing.push_back(look_up(gone[i], key, meeting, everybody(now)));
    reason.detail += (i < 8 ? "; " + sentence(reason.missing.back()) : "");
  }
  return reason;
}

/// Why the caller may not take part in a meeting bound to a world.
std::optional<Failure> Job::check_bound(const Step& step, const MeetingKey& key, Rank rank,
                                        const Arrival& arrival) const {
  const Result<const Group*> known = groups_.known(arrival.world);
  if (!known) return known.error();
  const Group& group = **known;
  if (key.generation != group.facts().generation && !planted(Planted::stale_accepted)) {
    return group.stale(key.generation);
  }
  const auto& who = arrival.participants;
  const std::size_t size = who.empty() ? group.size() : who.size();
  const bool ascending = std::ranges::adjacent_find(who, std::greater_equal<>()) == who.end();
  if (!ascending || (!who.empty() && who.back() >= group.size()) || arrival.world_size != size) {
    return failure(Code::invalid_argument,
                   describe(key) + ": " + std::to_string(who.size()) +
                       " participants for world size " + std::to_string(arrival.world_size) +
                       " of a group of " + std::to_string(group.size()) +
                       "; they are distinct ranks of the group in ascending order");
  }
  const Rank place = who.empty() ? rank : who[rank];
  if (group.sessions()[place] != step.from.session && !planted(Planted::stale_accepted)) {
    return failure(Code::rank_taken, describe(key) + ": rank " + std::to_string(place) +
                                         " of generation " + std::to_string(key.generation) +
                                         " is another member");
  }
  if (group.facts().phase != GroupPhase::formed && !planted(Planted::stale_accepted)) {
    return group.broken();
  }
  return std::nullopt;
}

}  // namespace c10dd::core
