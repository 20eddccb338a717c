// SPDX-License-Identifier: Apache-2.0
// Implements how members join, send reports and end.
#include "daemon/core/group/group.h"

#include <algorithm>

#include "daemon/core/group/status.h"
#include "daemon/core/time_left.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

std::string text_of(const RendezvousPolicy& policy) {
  return format("min {}, max {}, last call {}{}", policy.min, policy.max, human(policy.last_call),
                policy.quorum ? ", quorum" : "");
}

std::string process_of(const GroupMember& member) { return process_text(member.host, member.pid); }

std::string rank_of(const GroupMember& member) {
  return rank_text(static_cast<Rank>(member.rank), member.host, member.pid);
}

std::string bounded(const std::string& detail) {
  return printable(detail.substr(0, limits::kReasonBytes), limits::kReasonBytes);
}

/// Fails if only some members request a rank, or if another member already requests the same rank.
Result<void> check_requested_rank(const GroupState& group, const SessionId& id, const Join& request,
                                  const std::string& prefix) {
  const GroupMember* own = group.find(id);
  const bool own_asks = own != nullptr && group.asks(*own);
  const std::size_t asking = group.counts().asking - (own_asks ? 1 : 0);
  const std::size_t requests =
      group.counts().requests - (own_asks && own->requested_rank >= 0 ? 1 : 0);
  if (asking > 0 && (requests > 0) != (request.rank >= 0)) {
    return failure(
        Code::size_mismatch,
        prefix + "some members request a rank and others do not; all must request one, or none");
  }
  const std::size_t own_request = own_asks && own->requested_rank == request.rank ? 1 : 0;
  if (request.rank < 0 || group.requests_for(request.rank) <= own_request) return {};
  for (const auto& [other, member] : group.members()) {
    if (other == id || !group.asks(member) || member.requested_rank != request.rank) continue;
    return failure(Code::rank_taken,
                   "{}rank {} is already requested by {}; give each process its own rank", prefix,
                   request.rank, process_of(member));
  }
  return {};
}

Result<void> check_join(const GroupState& group, const SessionId& id, const Join& request) {
  const GroupFacts& facts = group.facts();
  const std::string prefix = "rendezvous \"" + printable(group.name(), limits::kNameBytes) + "\": ";
  if (request.round > facts.round) {
    return failure(Code::invalid_argument,
                   "{}the request is for round {}, but the newest round is {}", prefix,
                   request.round, facts.round);
  }
  const GroupMember* own = group.find(id);
  const bool others = group.counts().alive > (own != nullptr && own->is_here() ? 1 : 0);
  if (others && !(request.policy == facts.policy)) {
    return failure(
        Code::size_mismatch,
        "{}this member requests {}, but the group has {}; all members must request the same value",
        prefix, text_of(request.policy), text_of(facts.policy));
  }
  if (Result<void> good = check_requested_rank(group, id, request, prefix); !good) return good;
  if (own == nullptr && group.members().size() >= limits::kSessionsPerJob) {
    return failure(Code::quota_exceeded, "{}too many members: {} with this one, limit {}", prefix,
                   group.members().size() + 1, limits::kSessionsPerJob);
  }
  return {};
}

/// Copies the request and the session to the member. Notes that the member asks for a place.
/// `round` is the newest round, and the member asks for the round after it.
void ask(GroupMember& m, const Session& session, const Join& request, std::uint64_t round,
         Revision revision) {
  m.host = session.host;
  m.pid = session.pid;
  m.local_rank = request.local_rank;
  m.device = request.device;
  m.domain = request.domain;
  m.labels = request.labels;
  m.requested_rank = request.rank;
  m.spare = request.spare;
  m.step = request.step;
  m.failed = request.failed;
  if (m.joined == 0) m.joined = revision;
  m.asked = true;
  m.asked_in = round;
  m.state = GroupMember::State::here;
  m.ending.clear();
  m.present = session.connected;
  m.stalled = false;
  if (m.charge.account() != session.account()) m.charge = Charge(session.account(), 0);
  m.charge.set(memory_of_member(m));
}

}  // namespace

// ---- joining -----------------------------------------------------------------------------------

Result<void> Group::join(const SessionId& id, const Session& session, const Join& request,
                         ChangeContext& at) {
  const GroupMember* own = state_.find(id);
  const bool here = own != nullptr && own->is_here();
  const bool at_work = here && own->rank >= 0;
  if (here && state_.asks(*own)) return {};                 // a repeated join waits again
  if (at_work && request.round < facts().round) return {};  // this join was answered before
  if (Result<void> good = check_join(state_, id, request); !good) return good;
  const bool finished = facts().phase == GroupPhase::finished;
  if (!(facts().policy == request.policy) || facts().round == 0 || finished) {
    GroupFacts& facts = state_.edit_facts();
    facts.policy = request.policy;
    if (finished) facts.phase = GroupPhase::forming;
  }
  const bool stands = facts().phase == GroupPhase::formed && !facts().policy.quorum;
  const std::uint32_t waited = waiting(state_);
  if (state_.counts().asking == 0) asking_since_ = at.now;
  state_.add(id);
  state_.change(id, [&](GroupMember& m) {
    // The member has finished, but others of its generation still work. It asks like a newcomer, so
    // it gives up its rank. end() restores the rank if the member ends before it gets a place.
    if (!here && m.rank >= 0 && stands) m.former_rank = std::exchange(m.rank, -1);
    ask(m, session, request, facts().round, at.revision);
  });
  state_.note_change(at.revision);
  state_.put(id, at);
  if (at_work && stands) {
    break_up(rank_of(*state_.find(id)) + " asks for a new generation", false, at);
  } else if (waiting(state_) != waited) {
    state_.note_status_change(at);
  }
  return {};
}

void Group::set_present(const SessionId& id, bool present) {
  const GroupMember* member = state_.find(id);
  if (member == nullptr) return;
  state_.change(id, [&](GroupMember& m) { m.present = present; });
  if (member->stalled) state_.renew_version();  // the status tells whether the member is connected
}

void Group::note_time_left(const SessionId& id, Duration left, ChangeContext& at) {
  if (state_.find(id) == nullptr) return;
  state_.change(id, [left](GroupMember& m) { m.time_left = left; });
  state_.put(id, at);
}

// ---- reports -----------------------------------------------------------------------------------

Result<std::uint64_t> Group::notify(const Notify& request, ChangeContext& at) {
  return notices_.notify(state_, request, at);
}

Result<void> Group::acknowledge(const SessionId& id, std::uint64_t notice, ChangeContext& at) {
  return notices_.acknowledge(state_, id, notice, at);
}

Result<void> Group::progress(const SessionId& id, const Progress& report, ChangeContext& at) {
  const GroupMember* member = state_.find(id);
  if (report.generation != facts().generation || member == nullptr || member->rank < 0 ||
      !member->is_here()) {
    return stale(report.generation);
  }
  progress_.note(state_, id, report, at);
  return {};
}

// ---- ends of members ---------------------------------------------------------------------------

void Group::leave(const SessionId& id, Leave::Kind kind, const std::string& detail,
                  ChangeContext& at) {
  const GroupMember* member = state_.find(id);
  if (member == nullptr || !member->is_here()) return;
  const std::string why = detail.empty() ? std::string() : ": " + bounded(detail);
  const bool at_work = member->rank >= 0;
  // break_up() is called before end(), because end() may remove the member that the reason names.
  switch (kind) {
    case Leave::Kind::finish:
      end(id, GroupMember::State::finished, "finished" + why, at);
      // A member without a rank was not at work, so its end does not finish the generation.
      if (at_work) finish_if_done(at);
      return;
    case Leave::Kind::fail:
      if (at_work) break_up(rank_of(*member) + " has failed" + why, true, at);
      return end(id, GroupMember::State::left, "failed" + why, at);
    case Leave::Kind::leave:
      if (at_work) break_up(rank_of(*member) + " has left" + why, false, at);
      return end(id, GroupMember::State::left, "left" + why, at);
  }
}

void Group::lose(const SessionId& id, const std::string& detail, ChangeContext& at) {
  const GroupMember* member = state_.find(id);
  if (member == nullptr || !member->is_here()) return;
  if (member->rank >= 0) break_up(rank_of(*member) + " is lost: " + detail, false, at);
  end(id, GroupMember::State::lost, detail, at);
}

void Group::withdraw(const SessionId& id, const std::string& detail, ChangeContext& at) {
  const GroupMember* member = state_.find(id);
  if (member == nullptr || !state_.asks(*member)) return;
  if (member->rank >= 0) break_up(rank_of(*member) + " has left: " + detail, false, at);
  end(id, GroupMember::State::left, detail, at);
}

/// Ends the generation for this reason. Keeps the first reason if the generation has already ended.
void Group::break_up(const std::string& reason, bool failed, ChangeContext& at) {
  if (facts().phase == GroupPhase::formed) {
    GroupFacts& facts = state_.edit_facts();
    facts.phase = GroupPhase::broken;
    facts.reason = reason;
    ended_at_ = at.now;
    if (failed) ++facts.failures;
    changes_.ended = true;
    formation_.restart_last_call();
  }
  state_.note_status_change(at);
}

/// Ends a membership. The row of a member with a rank is kept until the next generation has formed,
/// because the status describes what became of each rank.
void Group::end(const SessionId& id, GroupMember::State how, const std::string& detail,
                ChangeContext& at) {
  notices_.forget(state_, id);
  progress_.forget(id);
  changes_.members_ended.push_back(id);
  const GroupMember& member = *state_.find(id);
  const bool came_back = member.former_rank >= 0;
  if (!came_back && member.rank < 0) {
    state_.remove(id, at);
  } else {
    state_.change(id, [&](GroupMember& m) {
      if (came_back) m.rank = std::exchange(m.former_rank, -1);
      m.state = came_back ? GroupMember::State::finished : how;
      m.ending = came_back ? "finished" : detail;
      m.asked = false;
      m.stalled = false;
      m.time_left = Duration::zero();
    });
    state_.put(id, at);
  }
  state_.note_status_change(at);
}

void Group::finish_if_done(ChangeContext& at) {
  if (state_.counts().of_list > 0) return;
  GroupFacts& facts = state_.edit_facts();
  facts.phase = GroupPhase::finished;
  facts.reason = "all members have finished";
  dismiss_spares(at);
  state_.note_status_change(at);
}

/// Removes the members that wait for a place in the work that is finished. They stay if they are a
/// whole launch, or if a member of the finished generation asks, too: then more work is coming.
void Group::dismiss_spares(ChangeContext& at) {
  if (whole_launch_waits(state_)) return;
  std::vector<SessionId> spares;
  for (const auto& [id, m] : state_.members()) {
    if (!state_.asks(m)) continue;
    if (m.rank >= 0 || m.former_rank >= 0) return;
    spares.push_back(id);
  }
  for (const SessionId& id : spares) {
    end(id, GroupMember::State::left, "the work is finished", at);
  }
}

// ---- settling ----------------------------------------------------------------------------------

GroupChanges Group::settle(ChangeContext& at) {
  while (const auto overdue = notices_.take_overdue(state_, at.now)) {
    for (const SessionId& id : overdue->members) lose(id, overdue->why, at);
  }
  changes_.stalled = progress_.mark_stalled(state_, at);
  if (const auto next = formation_.consider(state_, at.now)) {
    state_.start(*next, at);
    changes_.formed = true;
  }
  notices_.note_time_left(state_, at.now);
  note_last_call(at.now);
  changes_.status = state_.settle(at);
  return std::exchange(changes_, {});
}

void Group::note_last_call(TimePoint now) {
  const Duration noted = facts().last_call_left;
  const auto ends = formation_.last_call();
  std::optional<Duration> value;
  if (ends) value = to_note(noted, facts().policy.last_call, *ends - now);
  if (!ends && noted != Duration::zero()) value = Duration::zero();
  if (value) state_.edit_facts().last_call_left = *value;
}

std::optional<TimePoint> Group::next_deadline() const {
  std::optional<TimePoint> next;
  const auto last_call = formation_.last_call();
  const auto note = last_call
                        ? next_note(facts().last_call_left, facts().policy.last_call, *last_call)
                        : std::nullopt;
  for (const auto& other : {formation_.next_deadline(state_), note, notices_.next_deadline(),
                            progress_.next_deadline()}) {
    if (other) next = next ? std::min(*next, *other) : *other;
  }
  return next;
}

// ---- replies to members ------------------------------------------------------------------------

bool Group::waits(const SessionId& id) const {
  const GroupMember* member = state_.find(id);
  return member != nullptr && state_.asks(*member);
}

bool Group::came_in_vain(const SessionId& id, Revision opened, const Join& request) const {
  return facts().phase == GroupPhase::finished && opened < facts().status &&
         request.policy == facts().policy && state_.find(id) == nullptr;
}

std::optional<Joined> Group::place(const SessionId& id, std::uint64_t after_round) const {
  return place_of(state_, id, after_round);
}

const GroupStatus& Group::status(TimePoint now) const {
  if (!newest_status_ || newest_status_->version != state_.version()) {
    newest_status_ = {state_.version(), status_of(state_)};
  }
  notices_.set_time_left(newest_status_->status, now);
  return newest_status_->status;
}

Result<MemberPage> Group::page(const ReadMembers& request) const {
  return page_of(state_, request);
}

Failure Group::stale(std::uint64_t generation) const { return not_the_newest(state_, generation); }

Failure Group::broken() const { return why_ended(state_); }

Failure Group::shortage() const { return why_not_formed(state_); }

Failure Group::finished() const { return why_not_needed(state_); }

MissingRank Group::describe(Rank rank) const { return describe_rank(state_, rank); }

}  // namespace c10dd::core
