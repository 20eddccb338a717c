// SPDX-License-Identifier: Apache-2.0
// A crowd whose members join one group, and what they do there together. Throws
// std::runtime_error when the group is not as it must be.
#pragma once

#include <optional>
#include <string>

#include "tests/bench/crowd.h"
#include "tests/bench/histogram.h"

namespace c10dd::bench {

/// What a member of the group asks for. A generation needs `size`, no more and no fewer.
Join join_of(const std::string& group, unsigned size);

/// A process that has one place in the group and does nothing but beat, until it is killed.
/// prepare is called first in it.
[[noreturn]] void live_as_member(const Address& daemon, const Join& join,
                                 const std::function<void()>& prepare);

class GroupCrowd {
 public:
  using Clock = Crowd::Clock;

  /// `members` of the `size` that the group has; the others join by themselves.
  GroupCrowd(const Address& daemon, unsigned connections, unsigned members, unsigned size);

  /// All ask for a place in the next generation, and have it.
  void join();

  /// They ask for the place that they have; throws unless each gets it again.
  void join_again();

  /// Throws unless the group is formed, of this generation, and nobody is lost.
  void must_be_whole();

  /// All ask for news; returns when the daemon has taken that.
  void watch();
  /// Until each has been told that the generation is broken: how long that took since `start`.
  Histogram await_loss(Clock::time_point start);

  struct Met {
    Clock::duration whole;  ///< first arrival sent to last release
    Clock::duration last;   ///< last arrival sent to last release
  };
  /// At a barrier bound to the generation. With a latecomer, one that arrives when the arrivals of
  /// all others are durable.
  Met meet(bool latecomer);

  Crowd& crowd() { return crowd_; }
  const std::string& group() const { return group_; }

 private:
  std::vector<Bytes> arrivals(unsigned from, unsigned to);

  unsigned members_;
  unsigned size_;
  std::string group_;
  Crowd crowd_;
  Joined newest_;
  std::vector<Rank> ranks_;  // of the members
  std::uint64_t barriers_ = 0;
};

}  // namespace c10dd::bench
