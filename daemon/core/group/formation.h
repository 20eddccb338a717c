// SPDX-License-Identifier: Apache-2.0
// Decides when the next generation of a group forms, and which members it has. Does not change the
// state of the group.
//
// Elastic groups: a generation never forms with fewer than min members. It forms at once when max
// members ask and every survivor of the last generation asks too. Otherwise it forms when last_call
// has passed since at least min members asked. It does not form while a member that asks has no
// connection; such a member reconnects, or is lost when its grace ends. Quorum groups: see
// RendezvousPolicy. ranks.h decides which member gets which rank.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Formation {
 public:
  /// Returns the next generation if it forms at `now`; otherwise returns nothing. May start or end
  /// the last call.
  std::optional<NextGeneration> consider(const GroupState& group, TimePoint now);
  /// Returns the time at which the next generation forms unless a member changes first. Returns
  /// nullopt if no such time is set.
  std::optional<TimePoint> next_deadline(const GroupState& group) const;
  /// Returns when the last call ends; nullopt if none runs.
  std::optional<TimePoint> last_call() const { return last_call_; }
  /// Goes on with the last call that the rows of the group have, after a restart.
  void resume(const GroupState& group, TimePoint now);
  /// Notes that a generation has ended. The last call for the next generation gets its full length.
  void restart_last_call() { last_call_.reset(); }

 private:
  bool closes_elastic(const GroupState& group, TimePoint now);
  bool closes_quorum(const GroupState& group, TimePoint now);
  bool last_call_over(const GroupState& group, TimePoint now);

  std::optional<TimePoint> last_call_;  // when it ends
};

/// Returns true if at least max members ask for a place, not counting spares. After a generation
/// has finished, this many members count as a new launch. Fewer members would only repeat the work
/// of the finished generation.
bool whole_launch_waits(const GroupState& group);
/// Returns how many of the members that ask could get a place in the next generation.
std::size_t usable(const GroupState& group);
/// Returns how many newcomers would get a place if the group formed a larger generation. Returns 0
/// if the group is not formed.
std::uint32_t waiting(const GroupState& group);

}  // namespace c10dd::core
