// SPDX-License-Identifier: Apache-2.0
#include "protocol/diagnosis.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wait_graph.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

using State = Diagnosis::State;
using Kind = Diagnosis::Kind;
using Places = std::vector<std::size_t>;

constexpr std::size_t kSets = 3;    // of ranks, in one sentence
constexpr std::size_t kEdges = 3;   // of a circle, in one sentence
constexpr std::size_t kShort = 64;  // bytes of a name where the sentence is too long

std::string cut(std::string_view text, std::size_t most) {
  constexpr std::string_view kMore = "...";
  std::string whole = printable(text, most + 1);
  if (whole.size() <= most) return whole;
  return printable(whole, most - kMore.size()).append(kMore);
}

/// What a connected rank, of which no more is known, has not done; by WaitFor::Kind.
constexpr std::array<std::string_view, 6> kNotDone = {"arrived", "joined",    "arrived",
                                                      "set it",  "issued it", "sent the message"};

/// Where one rank is, and where several are; by RankFacts::State.
constexpr std::array<std::array<std::string_view, 2>, 9> kWhere = {{
    {"which is", "which are"},
    {"which has stalled", "which have stalled"},
    {"which never connected", "which never connected"},
    {"which has not connected since the daemon loaded the job",
     "which have not connected since the daemon loaded the job"},
    {"whose connection has closed", "whose connections have closed"},
    {"which is silent", "which are silent"},
    {"whose host does not answer", "whose hosts do not answer"},
    {"which has left", "which have left"},
    {"which is gone", "which are gone"},
}};

bool shows_doing(RankFacts::State state) {
  return state <= RankFacts::State::slow || state == RankFacts::State::gone;
}

std::string connected(std::size_t others) {
  return others == 1 ? "1 other is connected" : format("{} others are connected", others);
}

const char* wait(const Places& who) { return who.size() == 1 ? " waits" : " wait"; }

std::string more(std::size_t count, std::string_view noun) {
  return format("{} more {}{}", count, noun, count == 1 ? "" : "s");
}

/// How the parts of a sentence are worded. If it is too long, it is made again with less.
struct Wording {
  bool hosts = true;
  bool whole_names = true;
  std::size_t sets = kSets;
  std::span<const RankFacts> ranks = {};
  std::span<const std::size_t> waiting = {};  ///< for the cause

  std::string text(const std::string& name) const { return whole_names ? name : cut(name, kShort); }
  std::string who(const Places& places) const {
    std::vector<const RankFacts*> facts;
    facts.reserve(places.size());
    for (const std::size_t place : places) facts.push_back(&ranks[place]);
    return name_of_ranks(facts, hosts);
  }
  /// Returns for example "4095 ranks wait".
  std::string waits() const {
    const bool ranked = std::ranges::all_of(waiting, [&](auto at) { return !!ranks[at].rank; });
    if (waiting.size() == 1) return ranked ? "1 rank waits" : "1 process waits";
    return format("{} {} wait", waiting.size(), ranked ? "ranks" : "processes");
  }
  /// Says where ranks are that others wait for, behind their names. They have the same state.
  std::string where(const Places& places, WaitFor::Kind kind) const {
    const RankFacts& one = ranks[places.front()];
    const bool one_host = !one.host.empty() && std::ranges::all_of(places, [&](std::size_t place) {
      return ranks[place].host == one.host;
    });
    const bool of_host = one.state == RankFacts::State::no_answer;
    const bool several = places.size() > 1 && !(of_host && one_host);
    const std::string state(kWhere[static_cast<std::size_t>(one.state)][several]);
    if (!one.doing.empty() && shows_doing(one.state)) {
      return state + (one.state == RankFacts::State::gone ? ": " : " ") + text(one.doing);
    }
    if (one.state != RankFacts::State::live) return state;
    return format("{} connected, but {} not {}", state, several ? "have" : "has",
                  kNotDone[static_cast<std::size_t>(kind)]);
  }
};

/// Makes a text with the first wording in which it fits; if there is none, cuts it.
template <class Compose>
std::string fitted(std::span<const RankFacts> ranks, const Compose& compose,
                   std::span<const std::size_t> waiting = {}) {
  std::string text;
  for (Wording wording : {Wording{}, Wording{true, false}, Wording{false, true},
                          Wording{false, false}, Wording{false, false, 1}}) {
    wording.ranks = ranks;
    wording.waiting = waiting;
    text = compose(wording);
    if (text.size() <= Diagnosis::kSentenceBytes) break;
  }
  return cut(text, Diagnosis::kSentenceBytes);
}

/// One diagnosis.
class Rules {
 public:
  Rules(std::span<const WaitFor> wait_fors, std::span<const RankFacts> ranks, TimePoint now)
      : ranks_(ranks), now_(now), graph_(wait_fors, ranks), all_(graph_.all()) {
    for (const WaitFor* one : all_) first_end_ = std::min(first_end_, end_of(*one));
  }

  /// Asks the rules in their order, each about the oldest wait-for first.
  Diagnosis found() const {
    using Rule = std::optional<Diagnosis> (Rules::*)(std::size_t) const;
    constexpr std::array<Rule, 7> kRules = {&Rules::lost,   &Rules::mismatch, &Rules::deadlock,
                                            &Rules::unsent, &Rules::missing,  &Rules::queued,
                                            &Rules::hung};
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
    return made(State::stuck, Kind::mismatch, at, cause, [&](const Wording& wording) {
      std::string text = wording.text(one.what) + " differs between ranks: ";
      const std::size_t shown = std::min(calls.size(), kSets);
      for (std::size_t i = 0; i < shown; ++i) {
        text += format("{}{} issued {}", i == 0 ? "" : ", ", wording.who(calls[i].ranks),
                       wording.text(calls[i].call));
      }
      return calls.size() == shown ? text : text + ", and " + more(calls.size() - shown, "call");
    });
  }

  std::optional<Diagnosis> deadlock(std::size_t at) const {
    if (graph_.circle().empty() || graph_.circle().front() != at) return std::nullopt;
    Places cause;
    for (std::size_t i = 0; i < graph_.circle().size(); ++i) {
      std::ranges::copy(graph_.ranks_in_circle(i), std::back_inserter(cause));
    }
    TimePoint youngest;
    for (const std::size_t one : graph_.circle()) youngest = std::max(youngest, all_[one]->since);
    const bool stuck = now_ - youngest >= Diagnosis::kCircle;
    return made(stuck ? State::stuck : State::waiting, Kind::deadlock, at, cause,
                [&](const Wording& wording) { return circle_text(wording); });
  }

  std::optional<Diagnosis> unsent(std::size_t at) const {
    const WaitFor& one = *all_[at];
    if (!one.unsent || one.awaited.empty()) return std::nullopt;
    return made(State::stuck, Kind::unsent, at, one.awaited, [&](const Wording& wording) {
      return format("{} waits for a message from {}, which went on without sending it",
                    wording.text(one.what), wording.who(one.awaited));
    });
  }

  /// What a wait-for awaits that waits for nobody. One that awaits a lost rank comes first, one of
  /// which nothing is known but who waits comes last.
  enum class End : std::uint8_t { lost_rank, rank, unknown, none };
  End end_of(const WaitFor& one) const {
    const Places ends = graph_.ends_of(one);
    const auto is_lost = [this](std::size_t rank) { return ranks_[rank].is_lost(); };
    if (!one.may_recover && std::ranges::any_of(ends, is_lost)) {
      return End::lost_rank;
    }
    if (!ends.empty() || one.unnamed > 0) return End::rank;
    const bool known = !one.awaited.empty() || one.kind == WaitFor::Kind::collective;
    return known || one.waiting.empty() ? End::none : End::unknown;
  }

  std::optional<Diagnosis> missing(std::size_t at) const {
    const WaitFor& one = *all_[at];
    const End end = end_of(one);
    if (end == End::none || end != first_end_) return std::nullopt;
    const Places ends = graph_.ends_of(one);
    return made(end == End::lost_rank ? State::stuck : State::waiting, Kind::missing, at, ends,
                [&](const Wording& wording) { return missing_text(one, ends, wording); });
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
    const bool complete = one.kind == WaitFor::Kind::collective && one.awaited.empty();
    if (!complete || one.waiting.empty()) return std::nullopt;
    const State state = now_ - one.since >= Diagnosis::kHung ? State::stuck : State::waiting;
    return made(state, Kind::hung, at, {}, [&](const Wording& wording) {
      return wording.text(one.what) + " does not end, although all its ranks are in it; " +
             wording.waits() + "; check the network and the devices";
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
      const std::string_view doing = shows_doing(facts.state) ? facts.doing : std::string_view();
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
      items.push_back(more(left, "rank"));
      left = 0;
    }
    std::string text;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool last = i > 0 && i + 1 == items.size() && left == 0;
      text += format("{}{}for {}", i == 0 ? "" : ", ", last ? "and " : "", items[i]);
    }
    return left == 0 ? text : text + ", and " + more(left, "rank");
  }

  std::string missing_text(const WaitFor& one, const Places& ends, const Wording& wording) const {
    const bool key = one.kind == WaitFor::Kind::key;
    const std::string what = wording.text(one.what);
    if (!ends.empty() || one.unnamed > 0) {
      const std::string awaited = named_by_state(one, ends, wording);
      if (key) return format("{}; {} {}", what, wording.waits(), awaited);
      const bool launch = one.kind == WaitFor::Kind::launch;
      const std::string rest = launch ? connected(one.waiting.size()) : wording.waits();
      return format("{} waits {}; {}", what, awaited, rest);
    }
    const std::string who = wording.who(one.waiting) + wait(one.waiting);
    const std::string text = key ? what + "; " + who : who + " in " + what;
    if (wording.waiting.size() <= one.waiting.size()) return text;
    const std::size_t others = wording.waiting.size() - one.waiting.size();
    return text + format(", and {} wait{} for {}", more(others, "rank"), others == 1 ? "s" : "",
                         one.waiting.size() == 1 ? "it" : "them");
  }

  /// Makes a diagnosis about a wait-for. compose(wording) makes the sentence.
  template <class Compose>
  Diagnosis made(State state, Kind kind, std::size_t at, const Places& cause,
                 const Compose& compose) const {
    const WaitGraph::Behind chain = graph_.behind(at);
    Diagnosis out{.state = state, .kind = kind, .since = all_[at]->since};
    out.sentence = fitted(ranks_, compose, chain.ranks);
    for (const std::size_t place : cause) {
      const RankFacts& one = ranks_[place];
      if (one.rank) out.ranks.push_back(*one.rank);
      if (!one.host.empty()) out.hosts.push_back(printable_name(one.host));
    }
    const auto sort_uniquely = [](auto& list) {
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    sort_uniquely(out.ranks);
    sort_uniquely(out.hosts);
    out.waiting = chain.ranks.size();
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
      return text + (one.awaited.empty() ? " for " : " and ") + more(one.unnamed, "rank");
    });
  }

  const std::span<const RankFacts> ranks_;
  const TimePoint now_;
  const WaitGraph graph_;
  const std::vector<const WaitFor*>& all_;  // of graph_, the oldest first
  End first_end_ = End::none;               // of all wait-fors
};

}  // namespace

std::string_view name_of(Diagnosis::State state) {
  constexpr std::array<std::string_view, 3> kNames = {"running", "waiting", "stuck"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(Diagnosis::Kind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"none",   "lost",    "mismatch", "deadlock",
                                                      "unsent", "missing", "queued",   "hung"};
  return kNames[static_cast<std::size_t>(kind)];
}

Diagnosis diagnose(std::span<const WaitFor> wait_fors, std::span<const RankFacts> ranks,
                   TimePoint now) {
  return Rules(wait_fors, ranks, now).found();
}

}  // namespace c10dd
