// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/wait_fors.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "daemon/core/reports/collective_waits.h"
#include "daemon/core/reports/launch_waits.h"
#include "daemon/core/reports/wait_for_list.h"
#include "daemon/core/waiting/step.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

/// A broken group with enough living members may form its next generation until then.
constexpr Duration kRejoin = std::chrono::seconds(30);

class Builder {
 public:
  Builder(const WaitSources& of, WaitForList& list)
      : of_(of), list_(list), known_(list.known()), now_(of.everybody.now) {
    for (const auto& [id, session] : of.everybody.sessions.all()) {
      size_ = std::max(size_, session.world_size);
      if (session.rank >= 0 && session.rank < limits::kWorldSize) {
        size_ = std::max(size_, static_cast<std::uint32_t>(session.rank) + 1);
      }
    }
  }

  /// Returns the number of ranks of the job, as far as its sessions tell; 0: not known.
  std::uint32_t job_size() const { return size_; }

  void add_groups() {
    for (const auto& [name, group] : of_.everybody.groups.all()) {
      if (list_.full()) return;
      add_group(group);
    }
  }

  /// Adds the unfinished barriers, the oldest first.
  void add_barriers() {
    const Barriers& barriers = of_.everybody.barriers;
    std::vector<std::pair<TimePoint, const BarrierKey*>> all;
    for (const BarrierKey& key : barriers.unfinished()) {
      all.emplace_back(barriers.find(key)->first_arrival, &key);
    }
    std::ranges::stable_sort(all, {}, &std::pair<TimePoint, const BarrierKey*>::first);
    for (const auto& [since, key] : all) {
      if (list_.full()) return;
      add_barrier(*key, *barriers.find(*key));
    }
  }

 private:
  void add_group(const Group& group) {
    const GroupState& state = group.state();
    const GroupPhase phase = state.facts().phase;
    if (phase == GroupPhase::finished || state.counts().alive == 0) return;
    if (phase == GroupPhase::formed && !state.facts().policy.quorum) return;
    const std::string name = format("group \"{}\"", printable(group.name(), limits::kNameBytes));
    WaitFor one{.kind = WaitFor::Kind::group};
    if (state.counts().asking == 0) {
      if (phase == GroupPhase::broken) add_broken(group, name);
      return;
    }
    one.what = "rendezvous of " + name;
    const bool broken = phase == GroupPhase::broken;
    one.since = broken ? std::max(group.asking_since(), group.ended_at()) : group.asking_since();
    add_members(group, one);
    list_.add(std::move(one));
  }

  /// Adds a group whose generation has ended, and whose members have not asked for the next one.
  /// Leaves out one whose members all work in another group.
  void add_broken(const Group& group, const std::string& name) {
    const GroupState& state = group.state();
    WaitFor one{.kind = WaitFor::Kind::group, .what = name, .since = group.ended_at()};
    one.lost = "is broken: " + printable(state.facts().reason, limits::kReasonBytes);
    one.may_recover =
        state.counts().alive >= state.facts().policy.min && now_ - one.since < kRejoin;
    bool elsewhere = true;
    for (Rank rank = 0; rank < group.size(); ++rank) {
      const GroupMember* const member = group.holder(rank);
      if (member != nullptr && member->state == GroupMember::State::finished) continue;
      const bool lost = member == nullptr || !member->is_here();
      (lost ? one.awaited : one.waiting).push_back(of_member(group, rank));
      if (!lost) elsewhere = elsewhere && works_elsewhere(group, group.sessions()[rank]);
    }
    if (!elsewhere) list_.add(std::move(one));
  }

  bool works_elsewhere(const Group& group, const SessionId& id) const {
    const auto& all = of_.everybody.groups.all();
    return std::ranges::any_of(all, [&](const auto& entry) {
      const Group& other = entry.second;
      if (&other == &group || other.facts().phase != GroupPhase::formed) return false;
      const GroupMember* const member = other.state().find(id);
      return member != nullptr && member->is_here() && member->rank >= 0;
    });
  }

  std::size_t of_member(const Group& group, Rank rank) {
    const SessionId& id = group.sessions()[rank];
    const GroupMember* const member = group.holder(rank);
    if (of_.everybody.sessions.find(id) != nullptr) return known_.of_session(id, rank);
    RankFacts facts{.rank = rank, .state = RankFacts::State::gone};
    if (member != nullptr) {
      facts.host = member->host;
      facts.pid = member->pid;
      facts.doing = printable(member->ending, limits::kNameBytes);
    }
    return known_.add(std::move(facts));
  }

  /// Adds who asks for a place in the next generation, and who has to ask before it can form.
  void add_members(const Group& group, WaitFor& one) {
    const GroupState& state = group.state();
    const RendezvousPolicy& policy = state.facts().policy;
    const bool by_rank = state.counts().requests > 0;
    std::set<Rank> requested;
    std::size_t ready = 0;
    for (const auto& [id, member] : state.members()) {
      if (state.asks(member)) {
        const bool has_rank = by_rank && member.requested_rank >= 0;
        const auto rank =
            has_rank ? std::optional(static_cast<Rank>(member.requested_rank)) : std::nullopt;
        if (rank) requested.insert(*rank);
        const std::size_t place = place_of_waiter(of_, known_, id, rank);
        one.waiting.push_back(place);
        if (member.present) ++ready;
        if (!member.present) one.awaited.push_back(place);
      } else if (member.is_here() && member.rank >= 0) {
        one.awaited.push_back(known_.of_session(id));
      }
    }
    one.may_recover = !by_rank && ready >= policy.min;
    const std::size_t come = state.counts().asking + one.awaited.size();
    if (!by_rank && come < policy.min) one.unnamed = policy.min - come;
    const Rank size = by_rank ? std::min(policy.max, limits::kWorldSize) : 0;
    for (Rank rank = 0; rank < size && one.unnamed == 0; ++rank) {
      if (!requested.contains(rank)) await(rank, size - requested.size(), one);
    }
  }

  /// Adds a rank that others await. If many ranks are awaited (`missing` is their number), only
  /// counts those of which nothing is known.
  void await(Rank rank, std::size_t missing, WaitFor& one) {
    const Sessions& sessions = of_.everybody.sessions;
    if (missing <= WaitForList::kUnknown || sessions.id_of_rank(rank) != nullptr) {
      one.awaited.push_back(known_.of_rank(rank));
    } else if (missing > size_limit()) {
      one.unnamed = missing;
    } else {
      ++one.unnamed;
    }
  }
  /// More missing ranks than sessions cannot be known one by one.
  std::size_t size_limit() const { return of_.everybody.sessions.size() + WaitForList::kUnknown; }

  void add_barrier(const BarrierKey& key, const BarrierState& barrier) {
    const Group* const group = of_.everybody.groups.find(barrier.group);
    WaitFor one{
        .kind = WaitFor::Kind::barrier, .what = describe(key), .since = barrier.first_arrival};
    const std::set<SessionId> blocked = blocked_at(key);
    // A barrier of some ranks only may give them numbers of their own.
    bool own_ranks = size_ > 0 && barrier.world_size < size_;
    for (const auto& [rank, arrival] : barrier.arrivals) {
      const std::size_t place = place_of_waiter(of_, known_, arrival.session);
      own_ranks = own_ranks || list_.facts(place).rank.value_or(rank) != rank;
      if (list_.facts(place).is_lost()) {
        one.awaited.push_back(place);
      } else if (blocked.contains(arrival.session)) {
        one.waiting.push_back(place);
      }
    }
    const std::size_t missing = barrier.world_size - barrier.arrivals.size();
    if (barrier.complete || (group == nullptr && own_ranks)) {
      one.unnamed = barrier.complete ? 0 : missing;
    } else if (group == nullptr && missing > size_limit()) {
      one.unnamed = missing;
    } else {
      for (const Rank rank : barrier.missing()) {
        const Rank place = barrier.rank_in_group(rank);
        if (group == nullptr) {
          await(rank, missing, one);
        } else if (place < group->size()) {
          one.awaited.push_back(of_member(*group, place));
        }
      }
    }
    list_.add(std::move(one));
  }

  /// Returns the sessions with a request that is blocked at a barrier. Another one has arrived, but
  /// has cancelled its request.
  std::set<SessionId> blocked_at(const BarrierKey& key) const {
    std::set<SessionId> sessions;
    const std::set<Pending::Id>* const waiters = of_.pending.waiters_of(token_of(key));
    if (waiters == nullptr) return sessions;
    for (const Pending::Id id : *waiters) sessions.insert(of_.pending.at(id).session);
    return sessions;
  }

  const WaitSources& of_;
  WaitForList& list_;
  KnownRanks& known_;
  const TimePoint now_;
  std::uint32_t size_ = 0;
};

WaitForList empty_list(const WaitSources& sources) {
  const Everybody& everybody = sources.everybody;
  return WaitForList(KnownRanks(everybody.sessions, everybody.groups, sources.launch, everybody.now,
                                sources.loaded));
}

}  // namespace

std::size_t place_of_waiter(const WaitSources& of, KnownRanks& known, const SessionId& id,
                            std::optional<Rank> rank) {
  const std::size_t place = known.of_session(id, rank);
  const Session* const session = of.everybody.sessions.find(id);
  if (session == nullptr) return place;
  const std::size_t blocked = of.pending.of(id, Session::kCallers);
  const bool many = session->callers == Session::kCallers;
  known.note_calls(place, many || blocked < session->callers);
  return place;
}

JobWaits wait_fors(const WaitSources& sources, const std::set<std::uint64_t>& overdue) {
  WaitForList list = empty_list(sources);
  Builder builder(sources, list);
  builder.add_groups();
  builder.add_barriers();
  CollectiveWaits collectives(sources, list, builder.job_size(), overdue);
  collectives.add_all();
  add_launch_waits(sources, list);
  JobWaits found{list.take(), collectives.deviations(), {}, collectives.unsettled()};
  found.ranks = list.known().take();
  return found;
}

JobWaits wait_fors(const WaitSources& sources, std::uint64_t process_group) {
  WaitForList list = empty_list(sources);
  const std::set<std::uint64_t> overdue;
  CollectiveWaits collectives(sources, list, 0, overdue);
  collectives.add_group(process_group);
  JobWaits found{list.take(), {}, {}, collectives.unsettled()};
  found.ranks = list.known().take();
  return found;
}

}  // namespace c10dd::core
