// SPDX-License-Identifier: Apache-2.0
// Many ranks in few numbers. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <map>
#include <span>
#include <vector>

#include "protocol/types.h"

namespace c10dd {

/// Ranks first .. last.
struct RankRange {
  Rank first = 0;
  Rank last = 0;

  bool operator==(const RankRange&) const = default;
};
BOOST_DESCRIBE_STRUCT(RankRange, (), (first, last))

/// Ascending ranks as ranges.
std::vector<RankRange> ranges_of(std::span<const Rank> ranks);

/// Back again; at most limits::kWorldSize of them.
std::vector<Rank> ranks_of(std::span<const RankRange> ranges);

/// A set of ranks, kept as ranges. Changes cost the logarithm of their number.
class RankSet {
 public:
  /// The rank must not be there yet, or be there.
  void insert(Rank rank);
  void erase(Rank rank);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// The lowest `limit` ranges.
  std::vector<RankRange> ranges(std::size_t limit) const;
  /// The lowest `limit` ranges of the ranks below `end` that are not in the set.
  std::vector<RankRange> gaps(Rank end, std::size_t limit) const;
  /// How many ranks below `end` are in the set.
  std::size_t size_below(Rank end) const;

 private:
  std::map<Rank, Rank> ranges_;  // first to last
  std::size_t size_ = 0;
};

}  // namespace c10dd
