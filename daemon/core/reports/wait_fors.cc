// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/wait_fors.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daemon/core/reports/awaited_keys.h"
#include "daemon/core/reports/known_ranks.h"
#include "daemon/core/torch/rank_keys.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kKeyShown = 80;   // bytes of a key in a sentence
constexpr std::size_t kKeys = 256;      // wait-fors of keys that tell no rank
constexpr std::size_t kPairs = 65'536;  // pairs of a key and a request that are looked at

using Places = std::vector<std::size_t>;

class Builder {
 public:
  explicit Builder(const WaitSources& of)
      : of_(of),
        now_(of.everybody.now),
        told_(of.launch.told(of.keys)),
        known_(of.everybody.sessions, of.everybody.groups, of.launch, now_) {}

  JobWaits build() {
    for (const auto& [name, group] : of_.everybody.groups.all()) add_group(group);
    for (const BarrierKey& key : of_.everybody.barriers.unfinished()) {
      add_barrier(key, *of_.everybody.barriers.find(key));
    }
    add_keys();
    add_launch();
    return {std::move(all_), known_.take()};
  }

 private:
  /// Adds a wait-for if anybody or anything is awaited. Nobody is both waiting and awaited.
  void add(WaitFor one) {
    sort(one.waiting);
    sort(one.awaited);
    std::erase_if(one.awaited, [&](std::size_t place) {
      return std::ranges::binary_search(one.waiting, place) && !known_.facts()[place].is_lost();
    });
    std::erase_if(one.waiting, [&](std::size_t place) { return known_.facts()[place].is_lost(); });
    const bool key = one.kind == WaitFor::Kind::key;
    if (one.awaited.empty() && one.unnamed == 0 && one.lost.empty() && !key) return;
    if (one.waiting.empty() && one.lost.empty()) return;  // nobody is left who waits
    all_.push_back(std::move(one));
  }
  static void sort(Places& places) {
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }

  // ---- groups

  void add_group(const Group& group) {
    const GroupState& state = group.state();
    const GroupPhase phase = state.facts().phase;
    if (phase == GroupPhase::finished || state.counts().alive == 0) return;
    if (phase == GroupPhase::formed && !state.facts().policy.quorum) return;
    const std::string name = format("group \"{}\"", printable(group.name(), limits::kNameBytes));
    WaitFor one{.kind = WaitFor::Kind::group};
    if (state.counts().asking == 0) {
      if (phase != GroupPhase::broken) return;
      one.what = name;
      one.since = group.ended_at();
      one.lost = "is broken: " + printable(state.facts().reason, limits::kReasonBytes);
      for (Rank rank = 0; rank < group.size(); ++rank) {
        const GroupMember* const member = group.holder(rank);
        if (member != nullptr && member->state == GroupMember::State::finished) continue;
        const bool lost = member == nullptr || !member->is_here();
        (lost ? one.awaited : one.waiting).push_back(of_member(group, rank));
      }
      return add(std::move(one));
    }
    one.what = "rendezvous of " + name;
    one.since = group.asking_since();
    add_members(group, one);
    add(std::move(one));
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
    for (const auto& [id, member] : state.members()) {
      if (state.asks(member)) {
        const bool has_rank = by_rank && member.requested_rank >= 0;
        const Rank rank = has_rank ? static_cast<Rank>(member.requested_rank) : 0;
        if (has_rank) requested.insert(rank);
        const std::size_t place =
            known_.of_session(id, has_rank ? std::optional(rank) : std::nullopt);
        one.waiting.push_back(place);
        if (!member.present) one.awaited.push_back(place);
      } else if (member.is_here() && member.rank >= 0) {
        one.awaited.push_back(known_.of_session(id));
      }
    }
    if (by_rank) {
      for (Rank rank = 0; rank < std::min(policy.max, limits::kWorldSize); ++rank) {
        if (!requested.contains(rank)) one.awaited.push_back(known_.of_rank(rank));
      }
      return;
    }
    const std::size_t come = state.counts().asking + one.awaited.size();
    if (come < policy.min) one.unnamed = policy.min - come;
  }

  // ---- barriers

  void add_barrier(const BarrierKey& key, const BarrierState& barrier) {
    const Group* const group = of_.everybody.groups.find(barrier.group);
    WaitFor one{
        .kind = WaitFor::Kind::barrier, .what = describe(key), .since = barrier.first_arrival};
    bool own_ranks = false;  // the ranks of the barrier are not those of the job
    for (const auto& [rank, arrival] : barrier.arrivals) {
      const std::size_t place = known_.of_session(arrival.session);
      own_ranks = own_ranks || known_.facts()[place].rank.value_or(rank) != rank;
      (known_.facts()[place].is_lost() ? one.awaited : one.waiting).push_back(place);
    }
    for (const Rank rank : barrier.missing()) {
      if (group != nullptr) {
        const Rank place = barrier.rank_in_group(rank);
        if (place < group->size()) one.awaited.push_back(of_member(*group, place));
      } else if (own_ranks) {
        ++one.unnamed;
      } else {
        one.awaited.push_back(known_.of_rank(rank));
      }
    }
    add(std::move(one));
  }

  // ---- keys

  void add_keys() {
    WaitFor of_ranks{.kind = WaitFor::Kind::key, .since = now_};
    std::string first;
    std::size_t keys = 0;
    std::size_t others = 0;
    for (const AwaitedKey& one : awaited_keys(of_.pending)) {
      if (one.item) continue;  // a consumer without work is no hang
      const auto rank = one.at_least ? std::nullopt : rank_of_key(one.key);
      if (rank && *rank < limits::kWorldSize && !agent_key(one.key) && of_job(one.key)) {
        if (keys++ == 0) first = printable(one.key, kKeyShown);
        of_ranks.awaited.push_back(of_rank_without_key(*rank));
        add_waiters(one, of_ranks);
      } else if (others++ < kKeys) {
        add_key(one);
      }
    }
    if (keys == 0) return;
    of_ranks.what = format("key \"{}\" is not set", first);
    if (keys > 1) of_ranks.what = format("key \"{}\" and {} more are not set", first, keys - 1);
    add(std::move(of_ranks));
  }

  /// Returns whether the rank that a key names is a rank of the job.
  bool of_job(std::string_view key) const {
    return of_all_ranks(key) || key.find("default_pg/") == std::string_view::npos;
  }

  void add_key(const AwaitedKey& key) {
    WaitFor one{.kind = WaitFor::Kind::key, .since = now_};
    const std::string shown = printable(key.key, kKeyShown);
    one.what = key.at_least ? format("counter \"{}\" is below {}", shown, *key.at_least)
                            : format("key \"{}\" is not set", shown);
    add_waiters(key, one);
    add_absent(one);
    add(std::move(one));
  }

  void add_waiters(const AwaitedKey& key, WaitFor& one) {
    for (const Pending::Id id : *key.waiters) {
      const Pending::Waiter& waiter = of_.pending.at(id);
      one.since = std::min(one.since, waiter.started);
      if (pairs_++ >= kPairs) return;  // the others wait for other keys, too
      one.waiting.push_back(known_.of_session(waiter.session));
    }
  }

  /// Returns a rank whose key is not set. If all processes of the launch have come, and one of them
  /// has no rank yet, it is this rank.
  std::size_t of_rank_without_key(Rank rank) {
    if (of_.launch.of_rank(rank) != nullptr || of_.launch.here() != world_size_or(0)) {
      return known_.of_rank(rank);
    }
    const LaunchRanks::Process* only = nullptr;
    for (const auto& [id, process] : of_.launch.processes()) {
      if (!process.counts() || process.rank || process.has_left()) continue;
      if (only != nullptr) return known_.of_rank(rank);
      only = &process;
    }
    return only == nullptr ? known_.of_rank(rank)
                           : known_.of_session(*only->sessions.begin(), rank);
  }

  // ---- launches of PyTorch

  std::uint64_t world_size_or(std::uint64_t other) {
    if (!size_) size_ = world_size(told_, of_.everybody.sessions);
    return std::min<std::uint64_t>(size_->value_or(other), limits::kWorldSize);
  }

  /// Adds the ranks of a launch whose processes have not come: their number, if it is not known
  /// which they are. Adds nothing if its processes are counted by agents, or if the number of ranks
  /// is not known.
  void add_absent(WaitFor& one) {
    const std::uint64_t size = world_size_or(0);
    const std::size_t come = of_.launch.here() + of_.launch.gone();
    const bool agents = !told_.ranks.empty() && !told_.trainers;
    const bool all_came = come >= size || told_.ranks.size() >= size;
    if (agents || of_.launch.here() == 0 || all_came) return;
    if (!absent_) {
      absent_.emplace();
      for (Rank rank = 0; rank < size; ++rank) {
        if (!told_.ranks.contains(rank)) absent_->push_back(rank);
      }
      if (absent_->size() != size - come) absent_->clear();
    }
    if (absent_->empty()) one.unnamed = size - come;
    for (const Rank rank : *absent_) one.awaited.push_back(known_.of_rank(rank));
  }

  void add_launch() {
    WaitFor one{.kind = WaitFor::Kind::launch, .what = "the launch", .since = now_};
    for (const auto& [id, process] : of_.launch.processes()) {
      if (!process.counts()) continue;
      if (process.gave_up) add_dump(process);
      const std::size_t place = known_.of_process(process);
      const RankFacts::State state = known_.facts()[place].state;
      // A client of TCPStore may say nothing for hours while its host answers.
      const bool quiet = state == RankFacts::State::no_answer;
      const TimePoint seen = quiet ? now_ - kLeftFor : last_seen(process);
      if (!known_.facts()[place].is_lost()) {
        one.waiting.push_back(place);
      } else if (now_ - seen >= kLeftFor && is_rank(process)) {
        one.since = std::min(one.since, seen);
        one.awaited.push_back(place);
      }
    }
    const bool has_left = !one.awaited.empty();
    // A key that is awaited says more.
    const bool keys = std::ranges::find(all_, WaitFor::Kind::key, &WaitFor::kind) != all_.end();
    if (!keys && !has_left && now_ - of_.launch.newest() >= kLeftFor) {
      add_absent(one);
      one.since = of_.launch.newest();
    }
    one.ending = 2 * one.awaited.size() >= one.awaited.size() + one.waiting.size();
    add(std::move(one));
  }

  /// Returns whether a process is one of the ranks. If their keys tell who the ranks are, another
  /// process that has joined is a client that only uses the store.
  bool is_rank(const LaunchRanks::Process& process) const {
    return process.rank || !told_.trainers || told_.ranks.size() < 2;
  }

  /// Returns when a process was heard from last, or left.
  TimePoint last_seen(const LaunchRanks::Process& process) const {
    if (process.has_left()) return process.left_at;
    const Sessions& sessions = of_.everybody.sessions;
    TimePoint seen;
    for (const SessionId& id : process.sessions) {
      if (const Session* const session = sessions.find(id)) {
        seen = std::max(seen, sessions.last_heard(*session));
      }
    }
    return seen;
  }

  void add_dump(const LaunchRanks::Process& process) {
    WaitFor one{.kind = WaitFor::Kind::launch, .since = process.dumped_at};
    const std::size_t place = known_.of_process(process);
    RankFacts facts = known_.facts()[place];
    if (!facts.rank) facts.rank = process.gave_up_as;
    const RankFacts* const named = &facts;
    one.what = name_of_ranks({&named, 1});
    one.lost =
        "has given up a collective, because the watchdog of its NCCL group timed out; see "
        "the files of its flight recorder";
    one.awaited.push_back(place);
    all_.push_back(std::move(one));
  }

  const WaitSources& of_;
  const TimePoint now_;
  const LaunchRanks::Told& told_;
  KnownRanks known_;
  std::vector<WaitFor> all_;
  std::size_t pairs_ = 0;
  std::optional<std::optional<std::uint64_t>> size_;
  std::optional<std::vector<Rank>> absent_;
};

}  // namespace

std::optional<std::uint64_t> world_size(const LaunchRanks::Told& told, const Sessions& sessions) {
  if (told.world_size) return told.world_size;
  std::uint64_t largest = 0;
  for (const auto& [id, session] : sessions.all()) {
    largest = std::max<std::uint64_t>(largest, session.world_size);
    largest = std::max(largest, static_cast<std::uint64_t>(session.counts_to));
  }
  return largest > 0 ? std::optional(largest) : std::nullopt;
}

JobWaits wait_fors(const WaitSources& sources) { return Builder(sources).build(); }

}  // namespace c10dd::core
