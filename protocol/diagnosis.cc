// SPDX-License-Identifier: Apache-2.0
#include "protocol/diagnosis.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "protocol/diagnosis_wording.h"
#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wait_graph.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

using State = Diagnosis::State;
using Kind = Diagnosis::Kind;
using Places = std::vector<std::size_t>;
using Wording = DiagnosisWording;

constexpr std::size_t kEdges = 3;  // of a circle, in one sentence

const char* wait(const Places& who) { return who.size() == 1 ? " waits" : " wait"; }

template <class List>
void sort_uniquely(List& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

void name_cause(Diagnosis& of, const Places& cause, std::span<const RankFacts> ranks) {
  for (const std::size_t place : cause) {
    const RankFacts& one = ranks[place];
    if (one.rank) of.ranks.push_back(*one.rank);
    if (!one.host.empty()) of.hosts.push_back(printable_name(one.host));
  }
  sort_uniquely(of.ranks);
  sort_uniquely(of.hosts);
}

/// A rank whose operation is queued while it waits in another one comes to it afterwards, as on
/// the stream of a GPU: until then the others wait for this rank.
std::vector<WaitFor> with_queues(std::span<const WaitFor> given, std::size_t ranks) {
  std::vector<bool> begun(ranks);  // it waits in an operation with which its backend has begun
  for (const WaitFor& one : given) {
    if (one.process_group == 0) continue;  // another thread may be in it
    for (const std::size_t place : one.waiting) {
      if (!std::ranges::binary_search(one.queued, place)) begun[place] = true;
    }
  }
  std::vector<WaitFor> all(given.begin(), given.end());
  for (WaitFor& one : all) {
    const auto is_held = [&](std::size_t place) {
      return begun[place] && std::ranges::binary_search(one.queued, place);
    };
    Places held;
    std::ranges::copy_if(one.waiting, std::back_inserter(held), is_held);
    if (held.empty() || held.size() == one.waiting.size()) continue;
    std::erase_if(one.waiting, is_held);
    std::erase_if(one.queued, is_held);
    one.held = one.awaited = std::move(held);
    one.weak = true;
  }
  return all;
}

/// The diagnosis that follows from the wait-fors.
class Rules {
 public:
  Rules(std::span<const WaitFor> wait_fors, std::span<const RankFacts> ranks, TimePoint now)
      : ranks_(ranks),
        now_(now),
        graph_(wait_fors, ranks),
        all_(graph_.all()),
        in_circle_(all_.size()) {
    for (const WaitFor* one : all_) first_end_ = std::min(first_end_, end_of(*one));
    for (const std::size_t at : graph_.circle()) {
      in_circle_[at] = true;
      circle_has_unsent_ = circle_has_unsent_ || all_[at]->unsent;
    }
  }

  /// Asks the rules in their order, each about the oldest wait-for first.
  Diagnosis found() const {
    using Rule = std::optional<Diagnosis> (Rules::*)(std::size_t) const;
    constexpr std::array<Rule, 8> kRules = {&Rules::lost,     &Rules::mismatch, &Rules::lost_rank,
                                            &Rules::deadlock, &Rules::unsent,   &Rules::missing,
                                            &Rules::queued,   &Rules::hung};
    for (const Rule rule : kRules) {
      for (std::size_t at = 0; at < all_.size(); ++at) {
        if (std::optional<Diagnosis> one = (this->*rule)(at)) return std::move(*one);
      }
    }
    return {};
  }

 private:
  // The rules, in their order.

  std::optional<Diagnosis> lost(std::size_t at) const {
    const WaitFor& one = *all_[at];
    if (one.lost.empty()) return std::nullopt;
    return made(one.may_recover ? State::waiting : State::stuck, Kind::lost, at, one.awaited,
                [&](const Wording& wording) { return wording.text(one.what) + " " + one.lost; });
  }

  std::optional<Diagnosis> mismatch(std::size_t at) const {
    const WaitFor& one = *all_[at];
    if (one.issued.size() < 2) return std::nullopt;
    std::vector<IssuedCall> calls = one.issued;
    const auto size = [](const IssuedCall& call) { return call.ranks.size(); };
    std::ranges::stable_sort(calls, std::greater(), size);
    Places cause;
    for (std::size_t i = size(calls[0]) == size(calls[1]) ? 0 : 1; i < calls.size(); ++i) {
      std::ranges::copy(calls[i].ranks, std::back_inserter(cause));
    }
    Diagnosis found = made(State::stuck, Kind::mismatch, at, cause, [&](const Wording& wording) {
      std::string text = wording.text(one.what) + " differs between ranks: ";
      const std::size_t shown = std::min(calls.size(), Wording::kSets);
      for (std::size_t i = 0; i < shown; ++i) {
        text += format("{}{} issued {}", i == 0 ? "" : ", ", wording.who(calls[i].ranks),
                       wording.text(calls[i].call));
      }
      const std::size_t left = calls.size() - shown;
      return left == 0 ? text : text + ", and " + Wording::more(left, "call");
    });
    found.hopeless = one.confirmed && one.process_group != 0;
    return found;
  }

  /// What is known of a rank that is lost may be out of date, and so may be each circle with others
  /// that wait for it.
  std::optional<Diagnosis> lost_rank(std::size_t at) const {
    return first_end_ == End::lost_rank ? missing(at) : std::nullopt;
  }

  /// A circle with a message that is not sent is left to the rule `unsent`, which says more.
  std::optional<Diagnosis> deadlock(std::size_t at) const {
    const Places& circle = graph_.circle();
    if (circle.empty() || circle.front() != at || circle_has_unsent_) return std::nullopt;
    Places cause;
    TimePoint youngest = all_[at]->since;
    bool confirmed = true;
    bool weak = false;
    std::vector<std::uint64_t> process_groups;
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const WaitFor& one = graph_.in_circle(i);
      std::ranges::copy(graph_.ranks_in_circle(i), std::back_inserter(cause));
      youngest = std::max(youngest, one.since);
      confirmed = confirmed && one.confirmed;
      weak = weak || one.weak;
      if (one.process_group != 0) process_groups.push_back(one.process_group);
    }
    sort_uniquely(process_groups);
    const bool blocked = !weak && are_blocked(cause);
    const bool stuck = blocked || (now_ - youngest >= Diagnosis::kCircle && is_held());
    Diagnosis found = made(stuck ? State::stuck : State::waiting, Kind::deadlock, at, cause,
                           [&](const Wording& wording) { return circle_text(wording); });
    found.process_groups = std::move(process_groups);
    found.hopeless = blocked && confirmed && now_ - youngest >= Diagnosis::kHopeless;
    return found;
  }

  /// Returns whether no thread that is known may move the circle.
  bool is_held() const {
    for (std::size_t i = 0; i < graph_.circle().size(); ++i) {
      const WaitFor& one = graph_.in_circle(i);
      const bool in_operation = graph_.in_circle(i + 1).process_group != 0;
      const auto cannot_come = [&](std::size_t rank) {
        if (ranks_[rank].blocked) return true;
        if (one.process_group != 0) return std::ranges::binary_search(one.held, rank);
        return !in_operation && !ranks_[rank].calls_more;
      };
      if (!std::ranges::all_of(graph_.ranks_in_circle(i), cannot_come)) return false;
    }
    return true;
  }

  /// If the other rank waits elsewhere, it may come to the message later, unless it waits for this
  /// rank.
  std::optional<Diagnosis> unsent(std::size_t at) const {
    const WaitFor& one = *all_[at];
    if (!one.unsent || one.awaited.empty()) return std::nullopt;
    if (!in_circle_[at] && graph_.ends_of(one).empty()) return std::nullopt;
    const bool stuck = are_blocked(one.awaited) && are_blocked(one.waiting);
    const bool sends = one.kind == WaitFor::Kind::send;
    return made(stuck ? State::stuck : State::waiting, Kind::unsent, at, one.awaited,
                [&](const Wording& wording) {
                  return format("{} waits for {}{}, which went on without {} it",
                                wording.text(one.what), sends ? "" : "a message from ",
                                wording.who(one.awaited), sends ? "receiving" : "sending");
                });
  }

  bool are_blocked(const Places& places) const {
    return std::ranges::all_of(places, [this](std::size_t rank) { return ranks_[rank].blocked; });
  }

  /// What a wait-for awaits that waits for nobody. One that awaits a lost rank comes first, then
  /// one whose ranks are known, and one of which nothing is known but who waits comes last.
  enum class End : std::uint8_t { lost_rank, rank, unnamed, unknown, none };
  End end_of(const WaitFor& one) const {
    if (one.uncertain) return End::none;
    const Places ends = graph_.ends_of(one);
    const auto is_lost = [this](std::size_t rank) { return ranks_[rank].is_lost(); };
    if (!one.may_recover && std::ranges::any_of(ends, is_lost)) {
      return End::lost_rank;
    }
    if (!ends.empty()) return End::rank;
    if (one.unnamed > 0) return End::unnamed;
    const bool known = !one.awaited.empty() || one.kind == WaitFor::Kind::collective;
    return known || one.waiting.empty() ? End::none : End::unknown;
  }

  std::optional<Diagnosis> missing(std::size_t at) const {
    const WaitFor& one = *all_[at];
    const End end = end_of(one);
    if (end == End::none || end != first_end_) return std::nullopt;
    const Places ends = causes(graph_.ends_of(one));
    const bool stuck = end == End::lost_rank && std::ranges::any_of(ends, [this](std::size_t rank) {
                         return ranks_[rank].is_lost() && !ranks_[rank].may_return;
                       });
    return made(stuck ? State::stuck : State::waiting, Kind::missing, at, ends,
                [&](const Wording& wording) { return missing_text(one, ends, wording); });
  }

  /// Leaves out those that live, if others are lost: they may only be late.
  Places causes(Places ends) const {
    const auto is_lost = [this](std::size_t rank) { return ranks_[rank].is_lost(); };
    if (std::ranges::any_of(ends, is_lost)) {
      std::erase_if(
          ends, [this](std::size_t rank) { return ranks_[rank].state == RankFacts::State::live; });
    }
    return ends;
  }

  std::optional<Diagnosis> queued(std::size_t at) const {
    const WaitFor& one = *all_[at];
    if (one.queued.empty()) return std::nullopt;
    const char* const of = one.queued.size() == 1 ? "its backend" : "their backends";
    return made(State::waiting, Kind::queued, at, one.queued, [&](const Wording& wording) {
      return format("{} is still queued on {}, behind other work of {}; {}", wording.text(one.what),
                    wording.who(one.queued), of, wording.waits());
    });
  }

  std::optional<Diagnosis> hung(std::size_t at) const {
    const WaitFor& one = *all_[at];
    const bool complete =
        one.kind == WaitFor::Kind::collective && one.awaited.empty() && !one.uncertain;
    if (!complete || one.waiting.empty()) return std::nullopt;
    const bool stuck = !one.open && now_ - one.since >= Diagnosis::kHung;
    const State state = stuck ? State::stuck : State::waiting;
    // Those who still wait are where to look, unless all do, or others may.
    const Places cause = one.ended == 0 || one.open ? Places() : one.waiting;
    return made(state, Kind::hung, at, cause, [&](const Wording& wording) {
      std::string text = wording.text(one.what) + " does not end";
      if (one.open) return text + ", and not all its ranks are known; " + wording.waits();
      if (one.ended == 0) {
        text += ", although all its ranks are in it; ";
      } else {
        text += format(" on {}, although {} other rank{} ended it; ", wording.who(one.waiting),
                       one.ended, one.ended == 1 ? " has" : "s have");
      }
      return text + wording.waits() + "; check the network and the devices";
    });
  }

  std::string circle_text(Wording wording) const {
    Places who = graph_.ranks_in_circle(graph_.circle().size() - 1);
    std::string text = "deadlock: " + wording.who(who) + wait(who);
    const std::size_t shown = std::min(graph_.circle().size(), kEdges);
    for (std::size_t i = 0; i < shown; ++i) {
      if (i > 0) text += format(", which{}", wait(who));
      const std::string what = wording.text(graph_.in_circle(i).what);
      text += graph_.in_circle(i).kind == WaitFor::Kind::key ? " (" + what + ")" : " in " + what;
      who = graph_.ranks_in_circle(i);
      if (i + 1 == graph_.circle().size())
        wording.hosts = false;  // they are named at the beginning
      text += " for " + wording.who(who);
    }
    if (graph_.circle().size() == shown) return text;
    return text + format("; in all, {} waits form the circle", graph_.circle().size());
  }

  /// Names ranks by where they are, the worst first.
  std::string named_by_state(const WaitFor& one, const Places& ends, const Wording& wording) const {
    std::map<std::pair<int, std::string_view>, Places> sets;
    for (const std::size_t place : ends) {
      const RankFacts& facts = ranks_[place];
      const std::string_view doing =
          Wording::shows_doing(facts.state) ? facts.doing : std::string_view();
      sets[{-static_cast<int>(facts.state), doing}].push_back(place);
    }
    std::size_t left = ends.size() + one.unnamed;
    std::vector<std::string> items;
    for (const auto& [key, set] : sets) {
      if (items.size() == wording.sets) break;
      items.push_back(wording.who(set) + ", " + wording.where(set, one.kind));
      left -= set.size();
    }
    if (left > 0 && items.size() < wording.sets) {
      items.push_back(Wording::unnamed(one, left));
      left = 0;
    }
    std::string text;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool last = i > 0 && i + 1 == items.size() && left == 0;
      text += format("{}{}for {}", i == 0 ? "" : ", ", last ? "and " : "", items[i]);
    }
    return left == 0 ? text : text + ", and " + Wording::unnamed(one, left);
  }

  std::string missing_text(const WaitFor& one, const Places& ends, const Wording& wording) const {
    const bool key = one.kind == WaitFor::Kind::key;
    const std::string what = wording.text(one.what);
    if (!ends.empty() || one.unnamed > 0) {
      const std::string awaited = named_by_state(one, ends, wording);
      if (key) return format("{}; {} {}", what, wording.waits(), awaited);
      const bool launch = one.kind == WaitFor::Kind::launch;
      const std::string rest = launch ? Wording::connected(one.waiting.size()) : wording.waits();
      return format("{} waits {}; {}", what, awaited, rest);
    }
    const std::string who = wording.who(one.waiting) + wait(one.waiting);
    const std::string text = key ? what + "; " + who : who + " in " + what;
    if (wording.waiting.size() <= one.waiting.size()) return text;
    const std::size_t others = wording.waiting.size() - one.waiting.size();
    return text + format(", and {} wait{} for {}", Wording::more(others, "rank"),
                         others == 1 ? "s" : "", one.waiting.size() == 1 ? "it" : "them");
  }

  /// Makes a diagnosis about a wait-for. compose(wording) makes the sentence.
  template <class Compose>
  Diagnosis made(State state, Kind kind, std::size_t at, const Places& cause,
                 const Compose& compose) const {
    const WaitGraph::Behind chain = graph_.behind(at);
    Diagnosis out{.state = state, .kind = kind, .since = all_[at]->since};
    out.sentence = fitted(ranks_, compose, chain.ranks);
    name_cause(out, cause, ranks_);
    out.waiting = chain.ranks.size();
    if (all_[at]->process_group != 0) out.process_groups = {all_[at]->process_group};
    for (std::size_t i = 0; i < std::min(chain.wait_fors.size(), Diagnosis::kEvidence); ++i) {
      out.evidence.push_back(evidence(*all_[chain.wait_fors[i]]));
    }
    return out;
  }

  std::string evidence(const WaitFor& one) const {
    return fitted(ranks_, [&](const Wording& wording) {
      std::string text = wording.text(one.what);
      if (!one.waiting.empty()) text += ": " + wording.who(one.waiting) + wait(one.waiting);
      if (!one.awaited.empty()) text += " for " + wording.who(one.awaited);
      if (one.unnamed == 0) return text;
      return text + (one.awaited.empty() ? " for " : " and ") + Wording::unnamed(one, one.unnamed);
    });
  }

  const std::span<const RankFacts> ranks_;
  const TimePoint now_;
  const WaitGraph graph_;
  const std::vector<const WaitFor*>& all_;  // of graph_, the oldest first
  std::vector<bool> in_circle_;             // by place in all_
  bool circle_has_unsent_ = false;
  End first_end_ = End::none;  // of all wait-fors
};

/// Returns whether the ranks that deviate are no minority, so that nobody knows which are wrong.
bool both_sides(const Deviation& of) { return of.ranks.size() >= of.others.size(); }

std::string diverged_text(const Deviation& of, const Wording& wording) {
  const std::string others = both_sides(of) ? wording.who(of.others) : "the other ranks";
  return format(
      "the collectives of {} differ between sequences {} and {}: {} {} issued others than {}",
      wording.text(of.group), of.from, of.to, wording.who(of.ranks),
      of.ranks.size() == 1 ? "has" : "have", others);
}

std::string straggler_text(const Deviation& of, const Wording& wording) {
  return format("{} is held up by {}, which {} late to its collectives; {}", wording.text(of.group),
                wording.who(of.ranks), of.ranks.size() == 1 ? "comes" : "come", wording.waits());
}

Diagnosis deviation(const Deviation& of, std::span<const RankFacts> ranks) {
  const bool diverged = of.kind == Deviation::Kind::diverged;
  Diagnosis out{.state = diverged ? State::stuck : State::waiting,
                .kind = diverged ? Kind::diverged : Kind::straggler,
                .since = of.since};
  Places cause = of.ranks;
  if (diverged && both_sides(of)) std::ranges::copy(of.others, std::back_inserter(cause));
  out.sentence = fitted(
      ranks,
      [&](const Wording& wording) {
        return diverged ? diverged_text(of, wording) : straggler_text(of, wording);
      },
      of.others);
  name_cause(out, cause, ranks);
  if (!diverged) out.waiting = of.others.size();
  if (of.process_group != 0) out.process_groups = {of.process_group};
  return out;
}

}  // namespace

std::string_view name_of(Diagnosis::State state) {
  constexpr std::array<std::string_view, 3> kNames = {"running", "waiting", "stuck"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(Diagnosis::Kind kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "none",    "lost",   "mismatch", "deadlock", "unsent",
      "missing", "queued", "hung",     "diverged", "straggler"};
  return kNames[static_cast<std::size_t>(kind)];
}

Diagnosis diagnose(std::span<const WaitFor> wait_fors, std::span<const Deviation> deviations,
                   std::span<const RankFacts> ranks, TimePoint now) {
  const bool queues =
      std::ranges::any_of(wait_fors, [](const WaitFor& one) { return !one.queued.empty(); });
  Diagnosis found = queues ? Rules(with_queues(wait_fors, ranks.size()), ranks, now).found()
                           : Rules(wait_fors, ranks, now).found();
  if (found.kind != Kind::none || deviations.empty()) return found;
  // The kinds are in the order of the rules.
  const auto order = [](const Deviation& one) { return std::pair(one.kind, one.since); };
  return deviation(*std::ranges::min_element(deviations, {}, order), ranks);
}

}  // namespace c10dd
