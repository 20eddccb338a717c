// SPDX-License-Identifier: Apache-2.0
#include "protocol/wait_graph.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace c10dd {
namespace {

std::vector<const WaitFor*> by_age(std::span<const WaitFor> wait_fors) {
  std::vector<const WaitFor*> all;
  for (const WaitFor& one : wait_fors) all.push_back(&one);
  std::ranges::stable_sort(all, {}, &WaitFor::since);
  return all;
}

}  // namespace

WaitGraph::WaitGraph(std::span<const WaitFor> wait_fors, std::span<const RankFacts> ranks)
    : ranks_(ranks),
      all_(by_age(wait_fors)),
      waits_in_(ranks.size(), all_, &WaitFor::waiting),
      awaited_by_(ranks.size(), all_, &WaitFor::awaited),
      circle_(find_circle()) {}

WaitGraph::ByRank::ByRank(std::size_t ranks, std::span<const WaitFor* const> all,
                          Places WaitFor::*field)
    : begins_(ranks + 2) {
  for (const WaitFor* one : all) {
    for (const std::size_t rank : one->*field) ++begins_[rank + 2];
  }
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  entries_.resize(begins_.back());
  for (std::size_t at = 0; at < all.size(); ++at) {
    for (const std::size_t rank : all[at]->*field) entries_[begins_[rank + 1]++] = at;
  }
}

WaitGraph::Places WaitGraph::ends_of(const WaitFor& one) const {
  Places ends;
  for (const std::size_t rank : one.awaited) {
    if (waits_in_[rank].empty() || ranks_[rank].is_lost()) ends.push_back(rank);
  }
  if (one.kind != WaitFor::Kind::collective) return ends;
  for (const std::size_t rank : one.waiting) {
    if (ranks_[rank].is_lost()) ends.push_back(rank);
  }
  return ends;
}

WaitGraph::Behind WaitGraph::behind(std::size_t first) const {
  Behind found{.wait_fors = {first}, .ranks = {}};
  std::vector<bool> seen(all_.size());
  std::vector<bool> waits(ranks_.size());
  seen[first] = true;
  for (std::size_t i = 0; i < found.wait_fors.size(); ++i) {
    const auto size = static_cast<std::ptrdiff_t>(found.wait_fors.size());
    for (const std::size_t rank : all_[found.wait_fors[i]]->waiting) {
      if (waits[rank] || ranks_[rank].is_lost()) continue;
      waits[rank] = true;
      found.ranks.push_back(rank);
      for (const std::size_t at : awaited_by_[rank]) {
        if (!seen[at]) found.wait_fors.push_back(at);
        seen[at] = true;
      }
    }
    // The result does not depend on the order of the ranks.
    std::sort(found.wait_fors.begin() + size, found.wait_fors.end());
  }
  return found;
}

/// Returns the wait-fors that a circle holds up: all that do not end when those who wait for
/// nobody come, then those who waited only for them, and so on.
std::vector<bool> WaitGraph::held_up() const {
  std::vector<bool> held(all_.size(), true);
  Places awaited(all_.size());  // how many have not come
  Places waits(ranks_.size());  // in how many wait-fors a rank still waits
  Places come;
  const auto end = [&](std::size_t at) {
    held[at] = false;
    for (const std::size_t rank : all_[at]->waiting) {
      if (waits[rank] > 0 && --waits[rank] == 0) come.push_back(rank);
    }
  };
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].is_lost()) waits[rank] = waits_in_[rank].size();
    if (waits[rank] == 0) come.push_back(rank);
  }
  for (std::size_t at = 0; at < all_.size(); ++at) {
    awaited[at] = all_[at]->awaited.size();
    if (awaited[at] == 0) end(at);
  }
  while (!come.empty()) {
    const std::size_t rank = come.back();
    come.pop_back();
    for (const std::size_t at : awaited_by_[rank]) {
      if (--awaited[at] == 0) end(at);
    }
  }
  return held;
}

WaitGraph::Places WaitGraph::find_circle() const {
  const std::vector<bool> held = held_up();
  Places waits_in(ranks_.size(), all_.size());  // the oldest one that is held up
  for (std::size_t at = all_.size(); at-- > 0;) {
    for (const std::size_t rank : all_[at]->waiting) {
      if (held[at] && !ranks_[rank].is_lost()) waits_in[rank] = at;
    }
  }
  std::vector<bool> seen(all_.size());
  Places way;
  auto at = static_cast<std::size_t>(std::ranges::find(held, true) - held.begin());
  while (at < all_.size() && !seen[at]) {
    seen[at] = true;
    way.push_back(at);
    std::size_t next = all_.size();
    for (const std::size_t rank : all_[at]->awaited) next = std::min(next, waits_in[rank]);
    at = next;
  }
  way.erase(way.begin(), std::ranges::find(way, at));
  std::rotate(way.begin(), std::ranges::min_element(way), way.end());
  return way;
}

WaitGraph::Places WaitGraph::ranks_in_circle(std::size_t i) const {
  Places ranks;
  std::ranges::set_intersection(in_circle(i).awaited, in_circle(i + 1).waiting,
                                std::back_inserter(ranks));
  std::erase_if(ranks, [this](std::size_t rank) { return ranks_[rank].is_lost(); });
  return ranks;
}

}  // namespace c10dd
