// SPDX-License-Identifier: Apache-2.0
#include "protocol/rank_ranges.h"

#include <algorithm>
#include <iterator>

#include "protocol/limits.h"

namespace c10dd {

std::vector<RankRange> ranges_of(std::span<const Rank> ranks) {
  std::vector<RankRange> folded;
  for (const Rank rank : ranks) {
    if (!folded.empty() && folded.back().last + 1 == rank) {
      folded.back().last = rank;
    } else {
      folded.push_back({rank, rank});
    }
  }
  return folded;
}

std::vector<Rank> ranks_of(std::span<const RankRange> ranges) {
  std::vector<Rank> ranks;
  for (const RankRange& range : ranges) {
    for (Rank rank = range.first; rank <= range.last && ranks.size() < limits::kWorldSize; ++rank) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

void RankSet::insert(Rank rank) {
  ++size_;
  // Merge with the range that begins at rank + 1, and then with the range that ends at rank - 1.
  const auto next = ranges_.upper_bound(rank);
  Rank last = rank;
  if (next != ranges_.end() && next->first == rank + 1) {
    last = next->second;
    ranges_.erase(next);
  }
  const auto after = ranges_.upper_bound(rank);
  if (after != ranges_.begin() && std::prev(after)->second + 1 == rank) {
    std::prev(after)->second = last;
  } else {
    ranges_.emplace_hint(after, rank, last);
  }
}

void RankSet::erase(Rank rank) {
  --size_;
  const auto range = std::prev(ranges_.upper_bound(rank));
  const auto [first, last] = *range;
  ranges_.erase(range);
  if (first < rank) ranges_.emplace(first, rank - 1);
  if (rank < last) ranges_.emplace(rank + 1, last);
}

std::vector<RankRange> RankSet::ranges(std::size_t limit) const {
  std::vector<RankRange> lowest;
  for (const auto& [first, last] : ranges_) {
    if (lowest.size() == limit) break;
    lowest.push_back({first, last});
  }
  return lowest;
}

std::vector<RankRange> RankSet::gaps(Rank end, std::size_t limit) const {
  std::vector<RankRange> lowest;
  Rank next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first >= end || lowest.size() == limit) break;
    if (next < first) lowest.push_back({next, first - 1});
    next = last + 1;
  }
  if (next < end && lowest.size() < limit) lowest.push_back({next, end - 1});
  return lowest;
}

std::size_t RankSet::size_below(Rank end) const {
  std::size_t size = size_;
  for (auto range = ranges_.rbegin(); range != ranges_.rend() && range->second >= end; ++range) {
    size -= range->second - std::max(range->first, end) + 1;
  }
  return size;
}

}  // namespace c10dd
