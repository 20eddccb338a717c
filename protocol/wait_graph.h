// SPDX-License-Identifier: Apache-2.0
// The wait-fors of a job as a graph, whose edges lead from a wait-for to the ranks that it awaits,
// and from a rank to the wait-fors in which it waits. A lost rank waits for nobody.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "protocol/wait_for.h"

namespace c10dd {

class WaitGraph {
 public:
  using Places = std::vector<std::size_t>;

  /// Both must outlive the graph. Takes time in proportion to the length of all lists.
  WaitGraph(std::span<const WaitFor> wait_fors, std::span<const RankFacts> ranks);
  WaitGraph(const WaitGraph&) = delete;
  WaitGraph& operator=(const WaitGraph&) = delete;

  /// The wait-fors, the oldest first. Elsewhere they are named by their places in this list.
  const std::vector<const WaitFor*>& all() const { return all_; }

  /// Returns the ranks that a wait-for awaits and that wait for nobody. A lost rank holds a
  /// collective up although it has issued it.
  Places ends_of(const WaitFor& one) const;

  struct Behind {
    Places wait_fors;  ///< that end only after the first one; the nearest first
    Places ranks;      ///< that wait in them
  };
  Behind behind(std::size_t first) const;

  /// Returns the wait-fors of the circle that holds up the oldest one of those which circles hold
  /// up; empty if there is none. Each awaits ranks that wait in the next. The oldest is the first.
  const Places& circle() const { return circle_; }
  const WaitFor& in_circle(std::size_t i) const { return *all_[circle_[i % circle_.size()]]; }
  /// Returns the ranks that the i-th wait-for of the circle awaits and that wait in the next one.
  Places ranks_in_circle(std::size_t i) const;

 private:
  /// For each rank, the wait-fors that have it in one of their fields, the oldest first.
  class ByRank {
   public:
    ByRank(std::size_t ranks, std::span<const WaitFor* const> all, Places WaitFor::*field);
    std::span<const std::size_t> operator[](std::size_t rank) const {
      return {entries_.data() + begins_[rank], entries_.data() + begins_[rank + 1]};
    }

   private:
    Places begins_;  // of the list of each rank, and the end of the last one
    Places entries_;
  };

  std::vector<bool> held_up() const;
  Places find_circle() const;

  const std::span<const RankFacts> ranks_;
  const std::vector<const WaitFor*> all_;
  const ByRank waits_in_;    // of each rank: the wait-fors in which it waits
  const ByRank awaited_by_;  // of each rank: the wait-fors that await it
  const Places circle_;
};

}  // namespace c10dd
