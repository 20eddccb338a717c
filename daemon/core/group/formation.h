// SPDX-License-Identifier: Apache-2.0
// Decides when the next generation of a group forms, and which members it has. Changes nothing in
// the state.
//
// Elastic: a generation never forms with fewer than min members. It forms at once when max members
// ask and every survivor of the last generation asks too; else when last_call has passed since min
// members asked. It does not form while a member that asks is without a connection: that member
// comes back, or is lost within its grace. Quorum: see RendezvousPolicy. ranks.h decides which
// member gets which rank.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Formation {
 public:
  /// Returns the next generation if it forms now, and starts or ends the last call.
  std::optional<NextGeneration> consider(const GroupState& group, TimePoint now);
  /// Returns when the next generation forms if no member changes until then.
  std::optional<TimePoint> next_deadline(const GroupState& group) const;
  /// Notes that a generation has ended: the last call for the next one starts in full.
  void restart_last_call() { last_call_.reset(); }

 private:
  bool closes_elastic(const GroupState& group, TimePoint now);
  bool closes_quorum(const GroupState& group, TimePoint now);
  bool last_call_over(const GroupState& group, TimePoint now);

  std::optional<TimePoint> last_call_;  // when it ends
};

/// Returns how many of the members that ask could get a place.
std::size_t usable(const GroupState& group);
/// Returns how many newcomers to a formed group would get a place in a larger generation.
std::uint32_t waiting(const GroupState& group);

}  // namespace c10dd::core
