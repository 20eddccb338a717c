// SPDX-License-Identifier: Apache-2.0
// Works on hosts, not on candidates: a party is the candidates of one host, a block the free ranks
// that one host had. Choosing and seating apply the same rules, in an order of their own.
#include "daemon/core/group/ranks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "protocol/error.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

using Candidates = std::vector<Candidate>;
using Indices = std::vector<std::size_t>;                     // of candidates
using Where = std::pair<std::string_view, std::string_view>;  // domain, host

template <class T>
Where where(const T& candidate_or_hole) {
  return {candidate_or_hole.domain, candidate_or_hole.host};
}

/// Candidates of one host, by local rank. The first `seated` of them have a rank.
struct Party {
  Where where;
  std::uint64_t joined = 0;  // the first of them
  Indices members;
  std::size_t seated = 0;

  std::size_t waiting() const { return members.size() - seated; }
};

/// Free ranks that were on one host, ascending. The first `taken` of them have a candidate.
struct Block {
  Where where;
  bool known = false;  // else nobody had these ranks
  std::vector<Rank> ranks;
  std::size_t taken = 0;

  std::size_t open() const { return ranks.size() - taken; }
};

/// In the order of a first generation.
std::vector<Party> by_host(const Candidates& candidates, const Indices& who) {
  struct Standing {
    std::uint64_t domain_joined, host_joined;
    std::int32_t local_rank;
    std::uint64_t joined;
    std::size_t candidate;
    auto operator<=>(const Standing&) const = default;
  };
  std::map<std::string_view, std::uint64_t> domains;  // when the first of each joined
  std::map<Where, std::uint64_t> hosts;
  for (const std::size_t index : who) {
    const Candidate& c = candidates[index];
    std::uint64_t& domain = domains.try_emplace(c.domain, c.joined).first->second;
    std::uint64_t& host = hosts.try_emplace(where(c), c.joined).first->second;
    domain = std::min(domain, c.joined);
    host = std::min(host, c.joined);
  }
  std::vector<Standing> order;
  order.reserve(who.size());
  for (const std::size_t index : who) {
    const Candidate& c = candidates[index];
    order.push_back({domains[c.domain], hosts[where(c)], c.local_rank, c.joined, index});
  }
  std::sort(order.begin(), order.end());

  std::vector<Party> parties;
  for (const Standing& standing : order) {
    const Where at = where(candidates[standing.candidate]);
    if (parties.empty() || parties.back().where != at) {
      parties.push_back({at, standing.host_joined, {}, 0});
    }
    parties.back().members.push_back(standing.candidate);
  }
  return parties;
}

/// Brings parties to blocks, one rule after the other, each for what the ones before have left.
class Seating {
 public:
  /// `ranks`: by rank, who has it already or kNobody.
  Seating(Indices ranks, const std::vector<const Hole*>& holes) : ranks_(std::move(ranks)) {
    std::map<Where, std::size_t> known;
    std::size_t unknown = kNobody;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank] != kNobody) continue;
      const Hole* hole = holes[rank];
      std::size_t& block = hole ? known.try_emplace(where(*hole), kNobody).first->second : unknown;
      if (block == kNobody) {
        block = blocks_.size();
        blocks_.push_back({hole ? where(*hole) : Where(), hole != nullptr, {}, 0});
      }
      blocks_[block].ranks.push_back(static_cast<Rank>(rank));
    }
  }

  /// Gives everybody whom a hole attracts a rank; the others stay for rest().
  void seat_by_hole(std::vector<Party> parties) {
    bring_in(std::move(parties), ranks_.size());
    same_host();
    same_size(true);
    same_size(false);
    same_domain();
  }

  void rest() {
    std::vector<Party*> parties;
    for (Party& party : parties_) parties.push_back(&party);
    std::vector<Block*> blocks;
    for (Block& block : blocks_) blocks.push_back(&block);
    pour(whole_first(parties, places_), blocks);
  }

  /// The `places` of these that suit the holes best, else the first.
  Indices pick(std::vector<Party> parties, std::size_t places) {
    bring_in(std::move(parties), places);
    same_host();
    same_size(true);
    same_domain();
    same_size(false);
    rest();
    return seated_;
  }

  const Indices& ranks() const { return ranks_; }

 private:
  void bring_in(std::vector<Party> parties, std::size_t places) {
    parties_ = std::move(parties);
    places_ = places;
    seated_.clear();
  }

  void same_host() {
    std::map<Where, Party*> hosts;
    for (Party& party : parties_) hosts.emplace(party.where, &party);
    for (Block& block : blocks_) {
      const auto it = hosts.find(block.where);
      if (block.known && it != hosts.end()) pour({it->second}, {&block});
    }
  }

  void same_size(bool same_domain) {
    const auto key = [same_domain](Where at, std::size_t size) {
      return std::pair(same_domain ? at.first : std::string_view(), size);
    };
    std::map<std::pair<std::string_view, std::size_t>, std::vector<Party*>> hosts;  // last first
    for (auto party = parties_.rbegin(); party != parties_.rend(); ++party) {
      hosts[key(party->where, party->waiting())].push_back(&*party);
    }
    for (Block& block : blocks_) {
      if (!block.known || block.open() == 0 || block.open() > places_) continue;
      if (same_domain && block.where.first.empty()) continue;
      const auto it = hosts.find(key(block.where, block.open()));
      if (it == hosts.end() || it->second.empty()) continue;
      pour({it->second.back()}, {&block});
      it->second.pop_back();
    }
  }

  void same_domain() {
    struct Domain {
      std::vector<Party*> parties;
      std::vector<Block*> blocks;
      std::size_t open = 0;
    };
    std::map<std::string_view, Domain> domains;
    for (Party& party : parties_) domains[party.where.first].parties.push_back(&party);
    std::vector<Domain*> order;  // by lowest rank
    for (Block& block : blocks_) {
      const auto it = domains.find(block.where.first);
      if (!block.known || block.where.first.empty() || it == domains.end()) continue;
      if (it->second.blocks.empty()) order.push_back(&it->second);
      it->second.blocks.push_back(&block);
      it->second.open += block.open();
    }
    for (const Domain* domain : order) {
      pour(whole_first(domain->parties, domain->open), domain->blocks);
    }
  }

  /// Those that fit as a whole before those that do not.
  std::vector<Party*> whole_first(const std::vector<Party*>& parties, std::size_t room) const {
    room = std::min(room, places_);
    std::vector<Party*> whole;
    std::vector<Party*> others;
    for (Party* party : parties) {
      const bool fits = party->waiting() <= room;
      (fits ? whole : others).push_back(party);
      if (fits) room -= party->waiting();
    }
    whole.insert(whole.end(), others.begin(), others.end());
    return whole;
  }

  void pour(const std::vector<Party*>& parties, const std::vector<Block*>& blocks) {
    auto block = blocks.begin();
    for (Party* party : parties) {
      while (party->waiting() > 0 && places_ > 0) {
        while (block != blocks.end() && (*block)->open() == 0) ++block;
        if (block == blocks.end()) return;
        const std::size_t candidate = party->members[party->seated++];
        ranks_[(*block)->ranks[(*block)->taken++]] = candidate;
        seated_.push_back(candidate);
        --places_;
      }
    }
  }

  Indices ranks_;
  std::vector<Block> blocks_;
  std::vector<Party> parties_;
  std::size_t places_ = 0;
  Indices seated_;  // since bring_in()
};

/// Of `who`, at most `places`, next to `settled` who have a place for certain.
Indices choose(const Candidates& candidates, const Indices& who, std::size_t places,
               const Indices& settled, Seating seating) {
  if (who.size() <= places) return who;
  if (places == 0) return {};
  seating.seat_by_hole(by_host(candidates, settled));

  std::vector<Party> parties = by_host(candidates, who);
  std::sort(parties.begin(), parties.end(),
            [](const Party& a, const Party& b) { return a.joined < b.joined; });
  return seating.pick(std::move(parties), places);
}

/// Candidates by how strong their title to a place is.
struct Classes {
  explicit Classes(const Candidates& candidates) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& c = candidates[i];
      (c.previous_rank >= 0 ? survivors : c.spare ? spares : newcomers).push_back(i);
    }
    std::sort(survivors.begin(), survivors.end(), [&](std::size_t a, std::size_t b) {
      return candidates[a].previous_rank < candidates[b].previous_rank;
    });
  }

  Indices survivors;
  Indices newcomers;
  Indices spares;
};

/// Writes the reason, from the finished ranks.
class Reason {
 public:
  Reason(const Candidates& candidates, const RankPlan& plan, const std::vector<const Hole*>& holes)
      : candidates_(candidates), plan_(plan) {
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      note(static_cast<Rank>(rank), candidates[plan.ranks[rank]], holes[rank]);
    }
  }

  std::string text(std::size_t size_before, std::uint32_t max) const {
    std::string text =
        plan_.ranks.size() == 1 ? "1 rank" : std::to_string(plan_.ranks.size()) + " ranks";
    const bool claimed = !plan_.ranks.empty() && candidates_[plan_.ranks[0]].claimed_rank >= 0;
    text += size_before == 0 ? ", the first generation"
                             : ", " + std::to_string(size_before) + " before";
    text += claimed ? ", as claimed" : size_before == 0 ? ", by domain, host and local rank" : "";
    if (!kept_.empty()) text += "; " + named(kept_) + " kept";
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const std::string change = "; " + sentence(changes_[i]);
      if (text.size() + change.size() > kChangesEnd) {
        text += "; and " + std::to_string(changes_.size() - i) + " more";
        break;
      }
      text += change;
    }
    return text + parked(max);
  }

 private:
  /// What happened alike to some ranks, from one host to one host.
  struct Change {
    std::vector<Rank> ranks;
    std::vector<Rank> before;  // of those who get them
    const Hole* hole = nullptr;
    const Candidate* now = nullptr;
  };

  static constexpr std::size_t kNameBytes = 32;
  static constexpr std::size_t kRangesBytes = 40;
  static constexpr std::size_t kChangesEnd = 340;

  void note(Rank rank, const Candidate& now, const Hole* hole) {
    if (now.previous_rank == std::int64_t{rank}) return kept_.push_back(rank);
    const bool moves = now.previous_rank >= 0;
    const auto [it, is_new] = numbers_.try_emplace(
        {hole ? where(*hole) : Where(), where(now), hole != nullptr, moves, !moves && now.spare},
        changes_.size());
    if (is_new) changes_.push_back({{}, {}, hole, &now});
    changes_[it->second].ranks.push_back(rank);
    if (moves) changes_[it->second].before.push_back(static_cast<Rank>(now.previous_rank));
  }

  static std::string sentence(Change change) {
    const std::string ranks = named(change.ranks);
    const std::string host = name(change.now->host);
    if (!change.before.empty()) {
      std::sort(change.before.begin(), change.before.end());
      return "former " + named(change.before) + " (" + host + ") become" +
             (change.before.size() == 1 ? "s " : " ") + ranks +
             (change.hole ? " in place of " + name(change.hole->host) : "");
    }
    const bool one = change.ranks.size() == 1;
    const std::string by = (change.now->spare ? "the spare " : "") + host;
    if (!change.hole) return ranks + (one ? " is new: " : " are new: ") + by;
    return ranks + " (" + name(change.hole->host) + (one ? ") is" : ") are") +
           (where(*change.hole) == where(*change.now)
                ? " replaced on the same host"
                : " replaced by " + by + domains(change.hole->domain, change.now->domain));
  }

  static std::string domains(const std::string& before, const std::string& now) {
    if (before.empty() || now.empty()) return "";
    if (before == now) return ", of the same domain " + name(now);
    return ", of domain " + name(now) + " instead of " + name(before);
  }

  std::string parked(std::uint32_t max) const {
    if (plan_.parked.empty()) return "";
    std::vector<std::string> hosts;
    for (const std::size_t index : plan_.parked) {
      const std::string& host = candidates_[index].host;
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
      if (hosts.size() > 2) break;
    }
    const bool full = plan_.ranks.size() == max;
    return (full ? "; left over: " : "; left over as spares: ") +
           std::to_string(plan_.parked.size()) + " (" + name(hosts[0]) +
           (hosts.size() > 1 ? ", " + name(hosts[1]) : "") + (hosts.size() > 2 ? ", ...)" : ")") +
           (full ? ", at most " + std::to_string(max) + " have a place" : "");
  }

  static std::string name(const std::string& host_or_domain) {
    const std::string text = printable(host_or_domain, kNameBytes);
    return text.size() < host_or_domain.size() ? text + "..." : text;
  }

  static std::string named(const std::vector<Rank>& ranks) {
    if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
    std::string ranges = fold(ranks);
    if (ranges.size() > kRangesBytes) {
      ranges.resize(ranges.rfind(',', kRangesBytes));
      ranges += ",...]";
    }
    return "ranks " + ranges;
  }

  const Candidates& candidates_;
  const RankPlan& plan_;
  std::vector<Rank> kept_;
  std::vector<Change> changes_;  // by lowest rank
  std::map<std::tuple<Where, Where, bool, bool, bool>, std::size_t> numbers_;
};

/// By rank, below the size.
std::vector<const Hole*> by_rank(const std::vector<Hole>& holes, std::size_t size) {
  std::vector<const Hole*> found(size);
  for (const Hole& hole : holes) {
    if (hole.rank < size) found[hole.rank] = &hole;
  }
  return found;
}

/// Of the generation before.
std::size_t size_before(const Classes& classes, const Candidates& candidates,
                        const std::vector<Hole>& holes) {
  std::size_t size = 0;
  if (!classes.survivors.empty()) {
    size = static_cast<std::size_t>(candidates[classes.survivors.back()].previous_rank) + 1;
  }
  for (const Hole& hole : holes) size = std::max<std::size_t>(size, hole.rank + std::size_t{1});
  return size;
}

void append(Indices& all, const Indices& more) { all.insert(all.end(), more.begin(), more.end()); }

/// Everybody chosen, by the rank they claim.
Indices claimed(const Candidates& candidates, const Indices& chosen) {
  Indices ranks(chosen.size(), kNobody);
  for (const std::size_t index : chosen) {
    const std::int64_t claim = candidates[index].claimed_rank;
    C10DD_ASSERT(claim >= 0 && static_cast<std::size_t>(claim) < ranks.size());
    C10DD_ASSERT(ranks[static_cast<std::size_t>(claim)] == kNobody);
    ranks[static_cast<std::size_t>(claim)] = index;
  }
  return ranks;
}

Indices left_over(const Candidates& candidates, const Indices& chosen) {
  std::vector<bool> has_place(candidates.size());
  for (const std::size_t index : chosen) has_place[index] = true;
  Indices parked;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!has_place[i]) parked.push_back(i);
  }
  std::sort(parked.begin(), parked.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].joined < candidates[b].joined;
  });
  return parked;
}

}  // namespace

RankPlan assign_ranks(const Candidates& candidates, const std::vector<Hole>& holes,
                      std::uint32_t max, std::uint32_t wanted) {
  Classes classes(candidates);
  const std::size_t before = size_before(classes, candidates, holes);
  classes.survivors.resize(std::min<std::size_t>(classes.survivors.size(), max));
  const std::size_t survivors = classes.survivors.size();
  const std::size_t newcomers = std::min(classes.newcomers.size(), max - survivors);
  const std::size_t aim = std::max<std::size_t>(std::min(wanted, max), survivors + newcomers);
  const std::size_t spares = std::min(classes.spares.size(), aim - survivors - newcomers);
  const std::size_t size = survivors + newcomers + spares;

  Indices kept(size, kNobody);
  Indices placeless;
  for (const std::size_t index : classes.survivors) {
    const auto rank = static_cast<std::size_t>(candidates[index].previous_rank);
    C10DD_ASSERT(rank >= size || kept[rank] == kNobody);
    if (rank < size) {
      kept[rank] = index;
    } else {
      placeless.push_back(index);
    }
  }
  const std::vector<const Hole*> known_holes = by_rank(holes, size);
  Seating seating(kept, known_holes);
  append(placeless, choose(candidates, classes.newcomers, newcomers, placeless, seating));
  append(placeless, choose(candidates, classes.spares, spares, placeless, seating));

  Indices chosen = placeless;
  for (const std::size_t index : kept) {
    if (index != kNobody) chosen.push_back(index);
  }
  RankPlan plan;
  plan.parked = left_over(candidates, chosen);
  if (!chosen.empty() && candidates[chosen[0]].claimed_rank >= 0) {
    plan.ranks = claimed(candidates, chosen);
  } else {
    seating.seat_by_hole(by_host(candidates, placeless));
    seating.rest();
    plan.ranks = seating.ranks();
  }
  plan.reason = Reason(candidates, plan, known_holes).text(before, max);
  return plan;
}

}  // namespace c10dd::core
