// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/launch_waits.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/reports/awaited_keys.h"
#include "daemon/core/reports/collective_waits.h"
#include "daemon/core/torch/rank_keys.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kKeyShown = 80;  // bytes of a key in a sentence
constexpr std::size_t kKeys = 256;     // wait-fors of keys that tell no rank

class LaunchWaits {
 public:
  LaunchWaits(const WaitSources& of, WaitForList& list)
      : of_(of),
        list_(list),
        now_(of.everybody.now),
        told_(of.launch.told(of.keys)),
        size_(std::min<std::uint64_t>(world_size(told_, of.everybody.sessions).value_or(0),
                                      limits::kWorldSize)) {}

  /// Adds a wait-for for each awaited key, but only one for all keys of ranks that the same
  /// requests await.
  void add_keys() {
    struct OfRanks {
      AwaitedKey first;
      std::size_t more = 0;
      std::vector<Rank> ranks;
    };
    std::map<std::tuple<std::size_t, Pending::Id, Pending::Id>, OfRanks> of_ranks;
    std::size_t others = 0;
    for (const AwaitedKey& one : awaited_keys(of_.pending)) {
      if (one.item) continue;  // a consumer without work is no hang
      const auto rank = one.at_least ? std::nullopt : job_rank_of_key(one.key);
      if (rank) {
        const auto& ids = *one.waiters;
        OfRanks& these = of_ranks[{ids.size(), *ids.begin(), *ids.rbegin()}];
        if (these.ranks.empty()) {
          these.first = one;
        } else {
          ++these.more;
        }
        these.ranks.push_back(*rank);
      } else if (others++ < kKeys) {
        add_key(one);
      }
    }
    for (const auto& [requests, these] : of_ranks) {
      WaitFor one{.kind = WaitFor::Kind::key, .since = now_};
      const std::string key = printable(these.first.key, kKeyShown);
      one.what = these.more == 0 ? format("key \"{}\" is not set", key)
                                 : format("key \"{}\" and {} more are not set", key, these.more);
      for (const Rank rank : these.ranks) one.awaited.push_back(of_rank_without_key(rank));
      add_waiters(these.first, one);
      add_absent(one);
      list_.add(std::move(one));
    }
  }

  void add_launch() {
    WaitFor one{.kind = WaitFor::Kind::launch, .what = "the launch", .since = now_};
    bool for_good = true;
    std::size_t left = of_.launch.forgotten();
    for (const auto& [id, process] : of_.launch.processes()) {
      if (!process.counts()) continue;
      if (process.gave_up) add_dump(process);
      if (process.agent && told_.trainers) continue;  // it starts ranks, and is none
      const std::size_t place = list_.known().of_process(process);
      const RankFacts& facts = list_.facts(place);
      // A client of TCPStore may say nothing for hours while its host answers.
      const bool no_answer = facts.state == RankFacts::State::no_answer;
      const TimePoint seen = no_answer ? now_ - kLeftForGood : last_seen(process);
      if (!facts.is_lost()) {
        one.waiting.push_back(place);
        continue;
      }
      ++left;
      if (now_ - seen < kLeftFor || !is_rank(process)) continue;
      one.since = std::min(one.since, seen);
      one.awaited.push_back(place);
      for_good = for_good && now_ - seen >= kLeftForGood && (process.rank || no_answer);
    }
    // If as many processes are connected as there are ranks, nobody is missed.
    if (size_ > 0 && one.waiting.size() >= size_) one.awaited.clear();
    // If somebody waits for a key, that wait-for says more than this one.
    const auto& all = list_.all();
    const bool keys = std::ranges::find(all, WaitFor::Kind::key, &WaitFor::kind) != all.end();
    if (one.awaited.empty() && !keys && now_ - of_.launch.newest() >= kLeftFor) {
      add_absent(one);
      one.since = of_.launch.newest();
    }
    one.may_recover = !for_good || left >= one.waiting.size();
    list_.add(std::move(one));
  }

 private:
  void add_key(const AwaitedKey& key) {
    WaitFor one{.kind = WaitFor::Kind::key, .since = now_};
    const std::string shown = printable(key.key, kKeyShown);
    one.what = key.at_least ? format("counter \"{}\" is below {}", shown, *key.at_least)
                            : format("key \"{}\" is not set", shown);
    const bool goes_on = add_waiters(key, one);
    add_absent(one);
    // A process that has sent other requests meanwhile goes on: it only listens for the key.
    if (goes_on && one.awaited.empty() && one.unnamed == 0) return;
    list_.add(std::move(one));
  }

  /// Adds those who wait for a key. Returns whether all of their sessions have sent other requests
  /// for a while since. A process with process groups tells by them whether it goes on: its wait
  /// counts from its last collective on, and is old when it would have told the next one.
  bool add_waiters(const AwaitedKey& key, WaitFor& one) {
    bool go_on = true;
    for (const Pending::Id id : *key.waiters) {
      const Pending::Waiter& waiter = of_.pending.at(id);
      if (list_.full()) return false;
      one.waiting.push_back(place_of_waiter(of_, list_.known(), waiter.session));
      const Session* const session = of_.everybody.sessions.find(waiter.session);
      TimePoint since = waiter.started;
      if (const Reporter* const reporter = of_.activity.find(waiter.session)) {
        since = std::max(since, reporter->went_on);
        one.usual = CollectiveWaits::kSettled / CollectiveActivity::kUsual;
        go_on = false;
      }
      one.since = std::min(one.since, since);
      go_on = go_on && session != nullptr && session->acted - waiter.started > kLeftFor;
    }
    return go_on;
  }

  /// Returns a rank whose key is not set. If all processes of the launch have come, and one of them
  /// has no rank yet, it is this rank.
  std::size_t of_rank_without_key(Rank rank) {
    KnownRanks& known = list_.known();
    if (of_.launch.of_rank(rank) != nullptr || of_.launch.here() != size_) {
      return known.of_rank(rank);
    }
    const LaunchRanks::Process* only = nullptr;
    for (const auto& [id, process] : of_.launch.processes()) {
      if (!process.counts() || process.rank || process.has_left()) continue;
      if (only != nullptr) return known.of_rank(rank);
      only = &process;
    }
    if (only == nullptr) return known.of_rank(rank);
    return known.of_session(*only->sessions.begin(), rank);
  }

  /// Adds the ranks of a launch whose processes have not come: their number, if it is not known
  /// which they are. Adds nothing if its processes are counted by agents, or if the number of ranks
  /// is not known.
  void add_absent(WaitFor& one) {
    const std::size_t come = of_.launch.here() + of_.launch.gone() + of_.launch.forgotten();
    const bool all_came = come >= size_ || told_.ranks.size() >= size_;
    if (!told_.nodes.empty() || of_.launch.here() == 0 || all_came) return;
    const std::size_t absent = size_ - come;
    if (size_ - told_.ranks.size() != absent || absent > WaitForList::kUnknown) {
      if (one.awaited.empty()) one.unnamed = absent;
      return;
    }
    for (Rank rank = 0; rank < size_; ++rank) {
      if (!told_.ranks.contains(rank)) one.awaited.push_back(list_.known().of_rank(rank));
    }
  }

  /// Returns whether a process is one of the ranks. If their keys tell who the ranks are, another
  /// process that has joined is a client that only uses the store.
  bool is_rank(const LaunchRanks::Process& process) const {
    return process.rank || told_.ranks.size() < 2;
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
    const std::size_t place = list_.known().of_process(process);
    RankFacts facts = list_.facts(place);
    if (!facts.rank) facts.rank = process.gave_up_as;
    const RankFacts* const named = &facts;
    one.what = name_of_ranks({&named, 1});
    one.lost =
        "has given up a collective, because the watchdog of its NCCL group timed out; see "
        "the files of its flight recorder";
    one.awaited.push_back(place);
    list_.add(std::move(one));
  }

  const WaitSources& of_;
  WaitForList& list_;
  const TimePoint now_;
  const LaunchTold& told_;
  const std::uint64_t size_;  // of the launch; 0: not known
};

}  // namespace

std::optional<std::uint64_t> world_size(const LaunchTold& told, const Sessions& sessions) {
  if (told.world_size) return told.world_size;
  std::uint64_t largest = 0;
  for (const auto& [id, session] : sessions.all()) {
    largest = std::max<std::uint64_t>(largest, session.world_size);
    largest = std::max(largest, static_cast<std::uint64_t>(session.counts_to));
  }
  return largest > 0 ? std::optional(largest) : std::nullopt;
}

void add_launch_waits(const WaitSources& of, WaitForList& list) {
  LaunchWaits waits(of, list);
  waits.add_keys();
  waits.add_launch();
}

}  // namespace c10dd::core
