// SPDX-License-Identifier: Apache-2.0
// Stores many ranks as a few ranges. The messages of the operations in ops.h use such ranges.
#pragma once

#include <boost/describe/class.hpp>
#include <map>
#include <span>
#include <vector>

#include "protocol/types.h"

namespace c10dd {

/// The ranks first .. last, both included.
struct RankRange {
  Rank first = 0;
  Rank last = 0;

  bool operator==(const RankRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(RankRange, (), (first, last))

/// Returns ascending ranks as ranges.
std::vector<RankRange> ranges_of(std::span<const Rank> ranks);

/// Returns the ranks in the ranges, but at most limits::kWorldSize ranks.
std::vector<Rank> ranks_of(std::span<const RankRange> ranges);

/// A set of ranks, stored as ranges. Insert and erase take logarithmic time in the count of ranges.
class RankSet {
 public:
  /// Adds a rank, which must not be in the set.
  void insert(Rank rank);
  /// Removes a rank, which must be in the set.
  void erase(Rank rank);

  /// Returns the number of ranks.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Returns the lowest `limit` ranges.
  std::vector<RankRange> ranges(std::size_t limit) const;
  /// Returns, as ranges, the ranks below `end` that are not in the set. Returns only the lowest
  /// `limit` ranges.
  std::vector<RankRange> gaps(Rank end, std::size_t limit) const;
  /// Returns the number of ranks below `end` that are in the set.
  std::size_t size_below(Rank end) const;

 private:
  std::map<Rank, Rank> ranges_;  // first to last
  std::size_t size_ = 0;
};

}  // namespace c10dd
