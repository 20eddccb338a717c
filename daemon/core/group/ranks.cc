// SPDX-License-Identifier: Apache-2.0
// Decides which candidates get a place: survivors first, then newcomers, then spares. The class
// Seating then gives ranks to the chosen candidates.
#include "daemon/core/group/ranks.h"

#include <algorithm>

#include "daemon/core/group/rank_reason.h"
#include "daemon/core/group/seating.h"
#include "protocol/error.h"

namespace c10dd::core {
namespace {

/// Chooses at most `places` of the candidates `who`. The candidates in `settled` already have a
/// place, but no rank yet.
Indices choose(const Candidates& candidates, const Indices& who, std::size_t places,
               const Indices& settled, Seating seating) {
  if (who.size() <= places) return who;
  if (places == 0) return {};
  seating.seat_by_hole(by_host(candidates, settled));

  std::vector<HostCandidates> groups = by_host(candidates, who);
  std::sort(groups.begin(), groups.end(),
            [](const HostCandidates& a, const HostCandidates& b) { return a.joined < b.joined; });
  return seating.pick(std::move(groups), places);
}

/// Sorts the candidates into three classes. The first class has the highest priority.
struct Classes {
  explicit Classes(const Candidates& candidates) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& c = candidates[i];
      Indices& others = c.spare ? spares : newcomers;
      (c.previous_rank >= 0 ? survivors : others).push_back(i);
    }
    std::sort(survivors.begin(), survivors.end(), [&](std::size_t a, std::size_t b) {
      return candidates[a].previous_rank < candidates[b].previous_rank;
    });
  }

  Indices survivors;
  Indices newcomers;
  Indices spares;
};

/// Returns `size` pointers. The pointer at index r points to the Hole with rank r, or is null.
std::vector<const Hole*> by_rank(const std::vector<Hole>& holes, std::size_t size) {
  std::vector<const Hole*> found(size);
  for (const Hole& hole : holes) {
    if (hole.rank < size) found[hole.rank] = &hole;
  }
  return found;
}

/// Returns the size of the previous generation.
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

/// Returns the chosen candidates, indexed by the rank that each of them requests.
Indices requested(const Candidates& candidates, const Indices& chosen) {
  Indices ranks(chosen.size(), kNobody);
  for (const std::size_t index : chosen) {
    const std::int64_t request = candidates[index].requested_rank;
    C10DD_ASSERT(request >= 0 && static_cast<std::size_t>(request) < ranks.size());
    C10DD_ASSERT(ranks[static_cast<std::size_t>(request)] == kNobody);
    ranks[static_cast<std::size_t>(request)] = index;
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
  if (!chosen.empty() && candidates[chosen[0]].requested_rank >= 0) {
    plan.ranks = requested(candidates, chosen);
  } else {
    seating.seat_by_hole(by_host(candidates, placeless));
    seating.rest();
    plan.ranks = seating.ranks();
  }
  plan.reason = reason_of(candidates, plan, known_holes, before, max);
  return plan;
}

}  // namespace c10dd::core
