// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/barrier_ops.h"

#include <algorithm>
#include <functional>

#include "daemon/core/planted.h"
#include "daemon/core/waiting/missing.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

/// Returns a copy of the request without participants and parts, which the barrier already stores.
/// The copy is kept while the request is blocked.
Barrier without_load(Barrier barrier) {
  barrier.participants = {};
  return barrier;
}
Exchange without_load(const Exchange& exchange) {
  return {.name = exchange.name,
          .generation = exchange.generation,
          .sequence = exchange.sequence,
          .rank = exchange.rank,
          .world_size = exchange.world_size,
          .shape = exchange.shape,
          .root = exchange.root,
          .parts = {},
          .timeout = exchange.timeout,
          .offset = exchange.offset,
          .group = exchange.group,
          .participants = {},
          .waited = exchange.waited,
          .awaits_earlier = exchange.awaits_earlier};
}

bool awaits_earlier(const Barrier&) { return false; }
bool awaits_earlier(const Exchange& exchange) { return exchange.awaits_earlier; }

template <class Op>
Result<void> check_barrier(const Op& op) {
  if (op.name.size() > limits::kNameBytes) {
    return failure(Code::too_large, "{}: name too long: {} bytes, limit {}", Op::op.name,
                   op.name.size(), limits::kNameBytes);
  }
  if (op.world_size == 0 || op.world_size > limits::kWorldSize || op.rank >= op.world_size) {
    return failure(
        Code::invalid_argument,
        "{}: rank {} does not fit world size {}; use a world size of 1 to {} and a rank below it",
        describe(barrier_key(op)), op.rank, op.world_size, limits::kWorldSize);
  }
  if (op.group.empty() && !op.participants.empty()) {
    return failure(Code::invalid_argument,
                   describe(barrier_key(op)) +
                       ": participants are given, but no group; name the group of these ranks");
  }
  return {};
}

}  // namespace

// ---- arrivals ----------------------------------------------------------------------------------

OptionalReply BarrierOps::on(Step& step, const Barrier& barrier) {
  return arrive(step, barrier, barrier_key(barrier),
                {.session = step.from.session,
                 .world_size = barrier.world_size,
                 .parts = {},
                 .group = barrier.group,
                 .participants = barrier.participants});
}

OptionalReply BarrierOps::on(Step& step, const Exchange& exchange) {
  const BarrierKey key = barrier_key(exchange);
  if (exchange.offset > 0) {
    const BarrierState* barrier = barriers_.find(key);
    if (barrier == nullptr || !barrier->complete || barrier->broken ||
        barrier->holder(exchange.rank) == nullptr ||
        *barrier->holder(exchange.rank) != step.from.session) {
      return refuse(Code::outcome_unknown,
                    format("{}: this session has no reply to continue at byte {}", describe(key),
                           exchange.offset));
    }
    return waits_.ready(step, exchange);
  }
  return arrive(step, exchange, key,
                {.session = step.from.session,
                 .world_size = exchange.world_size,
                 .shape = exchange.shape,
                 .root = exchange.root,
                 .parts = exchange.parts,
                 .group = exchange.group,
                 .participants = exchange.participants});
}

/// Handles an arrival. Fails if the request is malformed or if the session may not take part. Who
/// may take part is decided by the group or, for a barrier without a group, by Relaunch. If
/// Relaunch makes the arrival wait for a session, blocks the request until that session is back or
/// gone, and records nothing. Otherwise records the arrival. Then replies if the barrier is
/// complete, or else blocks the request.
template <class Op>
OptionalReply BarrierOps::arrive(Step& step, const Op& op, const BarrierKey& key, Arrival arrival) {
  if (Result<void> good = check_barrier(op); !good) return good.error();
  if constexpr (std::is_same_v<Op, Exchange>) {
    if (op.root >= op.world_size) {
      return refuse(Code::invalid_argument, format("{}: root {} is not a rank of world size {}",
                                                   describe(key), op.root, op.world_size));
    }
    if (Result<void> good = check_parts(key, op.rank, arrival); !good) return good.error();
  }
  const BarrierState* known = barriers_.find(key);
  if (op.group.empty()) {
    const Relaunch::Way way = relaunch_.make_way(step, {key, op.rank, awaits_earlier(op)}, arrival);
    if (!way) return break_if_ranks_differ(step, key, way.error());
    if (*way) return wait_for_presence(step, op, **way);
  } else if (known == nullptr || !known->complete) {
    if (auto reason = check_bound(step, key, op.rank, arrival)) {
      step.observe(groups_.newest());
      return Reply(std::move(*reason));
    }
  }
  Result<const BarrierState*> barrier =
      barriers_.arrive(key, op.rank, std::move(arrival), sessions_, step.allowance, step.next,
                       step.now, step.out.rows);
  if (!barrier) return break_if_ranks_differ(step, key, barrier.error());
  if (!op.group.empty() && !(*barrier)->complete) {
    if (auto reason = can_not_complete(key, **barrier, step.now)) {
      fail(step, key, std::move(*reason));
    }
  }
  if (!(*barrier)->complete) return waits_.block(step, without_load(op), op.timeout);
  if ((*barrier)->revision == step.next && !(*barrier)->broken) released(step, key);
  return waits_.ready(step, op);
}

/// Returns the reply to an arrival that failed. If the ranks of an unfinished barrier disagree,
/// breaks the barrier first, so that the ranks that wait are told at once, too.
Reply BarrierOps::break_if_ranks_differ(Step& step, const BarrierKey& key, Failure reason) {
  const BarrierState* barrier = barriers_.find(key);
  const bool differ = reason.code == Code::size_mismatch && barrier != nullptr;
  if (!differ || barrier->complete || planted(Planted::disagreement_told_once)) {
    return Reply(std::move(reason));
  }
  fail(step, key, reason);
  step.observe(step.next);
  reason.recorded = true;
  return Reply(std::move(reason));
}

bool BarrierOps::arrived_before(const SessionId& session, const Request& request) const {
  const auto* exchange = std::get_if<Exchange>(&request);
  const BarrierState* barrier = exchange ? barriers_.find(barrier_key(*exchange)) : nullptr;
  if (barrier == nullptr) return false;
  const SessionId* holder = barrier->holder(exchange->rank);
  return barrier->broken || (holder != nullptr && *holder == session);
}

void BarrierOps::released(Step& step, const BarrierKey& key) {
  step.signal(token_of(key));
  step.out.events.push_back(BarrierReleased{step.now - barriers_.find(key)->first_arrival});
}

void BarrierOps::fail(Step& step, const BarrierKey& key, Failure reason) {
  barriers_.fail(key, std::move(reason), step.next, step.out.rows);
  step.signal(token_of(key));
}

// ---- sessions that come back or are gone -------------------------------------------------------

/// Blocks a request until the presence of the session `other` changes: it is connected again, loses
/// its connection, counts as gone, or ends. Until then, the barrier does not record the arrival.
template <class Op>
OptionalReply BarrierOps::wait_for_presence(Step& step, const Op& op, const SessionId& other) {
  OptionalReply refused = waits_.block(step, op, op.timeout, other);
  if (!refused && !sessions_.find(other)->connected) look_again_at(other);
  return refused;
}

/// Sets when the absence of this session is looked at next: when it counts as gone, or when its row
/// must have what is left until then.
void BarrierOps::look_again_at(const SessionId& absent) {
  const Session& session = *sessions_.find(absent);
  const TimePoint gone = sessions_.gone_at(session);
  absences_.set(absent, shared_tick(std::min(gone, sessions_.next_note(session).value_or(gone))));
}

void BarrierOps::tick(Step& step) {
  while (const auto absent = absences_.take_due(step.now)) {
    const Session* const session = sessions_.find(*absent);
    if (session == nullptr || session->connected || sessions_.gone_at(*session) <= step.now) {
      step.presence.push_back(*absent);
      continue;
    }
    sessions_.note_return(*absent, step.next, step.now, step.out.rows);
    look_again_at(*absent);
  }
}

void BarrierOps::release_returned(Step& step) {
  for (const SessionId& id : step.presence) {
    const Session* session = sessions_.find(id);
    if (session == nullptr || !session->connected) continue;
    for (const BarrierKey& key : barriers_.returned(id, step.next, step.out.rows)) {
      released(step, key);
    }
  }
}

void BarrierOps::recheck_absent(Step& step) {
  // The list may grow during the loop: ask_again() appends the sessions that it ends.
  while (!step.presence.empty()) {
    const SessionId id = step.presence.front();
    step.presence.erase(step.presence.begin());
    if (!planted(Planted::absence_kept)) absences_.erase(id);
    for (const Pending::Waiter& waiter : waits_.take(presence_token(id))) ask_again(step, waiter);
  }
}

/// Handles a request again, as if it had come just now. The request was blocked because it waited
/// for another session.
void BarrierOps::ask_again(Step& step, const Pending::Waiter& waiter) {
  const Origin from{.session = waiter.session};
  const CallId call{.sequence = waiter.sequence, .fingerprint = waiter.fingerprint};
  const Allowance any;  // it is charged already
  Step again{.from = from,
             .call = call,
             .allowance = any,
             .now = step.now,
             .revision = step.revision,
             .next = step.next,
             .out = step.out,
             .session = sessions_.find(waiter.session),
             .again = &waiter};
  const auto* barrier = std::get_if<Barrier>(&waiter.request);
  OptionalReply done =
      barrier ? on(again, *barrier) : on(again, std::get<Exchange>(waiter.request));
  std::ranges::move(again.signals, std::back_inserter(step.signals));
  std::ranges::move(again.presence, std::back_inserter(step.presence));
  std::ranges::move(again.queues, std::back_inserter(step.queues));
  if (done) waits_.finish(step, waiter, std::move(*done), again.observed);
}

// ---- bound to the generation of a group --------------------------------------------------------

void BarrierOps::break_bound(Step& step, const Group& group) {
  for (const BarrierKey& key : barriers_.of_group(group.name())) {
    const bool ended =
        key.generation != group.facts().generation || group.facts().phase != GroupPhase::formed;
    if (ended) {
      fail(step, key, group.broken());
    } else if (auto reason = can_not_complete(key, *barriers_.find(key), step.now)) {
      fail(step, key, std::move(*reason));
    }
  }
}

/// Returns a failure if a barrier of a group can not complete. This is so if a rank has not arrived
/// and the member with that rank has finished, has left or is lost. Otherwise returns nullopt.
std::optional<Failure> BarrierOps::can_not_complete(const BarrierKey& key,
                                                    const BarrierState& barrier,
                                                    TimePoint now) const {
  const Group* group = groups_.find(barrier.group);
  if (group == nullptr || !group->has_ended_members()) return std::nullopt;
  std::vector<Rank> gone;
  for (const Rank rank : barrier.missing()) {
    const GroupMember* m = group->holder(barrier.rank_in_group(rank));
    if (m == nullptr || m->state != GroupMember::State::here) gone.push_back(rank);
  }
  if (gone.empty()) return std::nullopt;
  Failure reason = failure(Code::aborted,
                           describe(key) + " is broken: ranks " + fold(gone) + " will not arrive");
  const Everybody everybody{sessions_, barriers_, groups_, now};
  for (std::size_t i = 0; i < std::min(gone.size(), limits::kMissingNamed); ++i) {
    reason.missing.push_back(look_up(gone[i], key, barrier, everybody));
    reason.detail += (i < 8 ? "; " + sentence(reason.missing.back()) : "");
  }
  return reason;
}

/// Returns a failure if the caller may not take part in a barrier of a group, otherwise nullopt.
std::optional<Failure> BarrierOps::check_bound(const Step& step, const BarrierKey& key, Rank rank,
                                               const Arrival& arrival) const {
  const Result<const Group*> known = groups_.known(arrival.group);
  if (!known) return known.error();
  const Group& group = **known;
  if (key.generation != group.facts().generation && !planted(Planted::stale_accepted)) {
    return group.stale(key.generation);
  }
  const auto& who = arrival.participants;
  const std::size_t size = who.empty() ? group.size() : who.size();
  const bool ascending = std::ranges::adjacent_find(who, std::greater_equal<>()) == who.end();
  if (!ascending || (!who.empty() && who.back() >= group.size()) || arrival.world_size != size) {
    return failure(
        Code::invalid_argument,
        "{}: got {} participants and world size {} in a group of {}; name distinct ranks of the "
        "group in ascending order, or none for all ranks, and give their number as world size",
        describe(key), who.size(), arrival.world_size, group.size());
  }
  const Rank place = who.empty() ? rank : who[rank];
  if (group.sessions()[place] != step.from.session && !planted(Planted::stale_accepted)) {
    return failure(Code::rank_taken, "{}: rank {} of generation {} belongs to another member",
                   describe(key), place, key.generation);
  }
  if (group.facts().phase != GroupPhase::formed && !planted(Planted::stale_accepted)) {
    return group.broken();
  }
  return std::nullopt;
}

}  // namespace c10dd::core
