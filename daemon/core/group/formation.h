// SPDX-License-Identifier: Apache-2.0
// Decides when the next generation of a group forms, and which members it has. Changes nothing in
// the state.
//
// Elastic: never with fewer than min; at once when max are here and every survivor of the last
// generation has asked; else when last_call has passed since min were here. A member that has lost
// its connection is waited for: it comes back or is lost within its grace. Quorum: see
// RendezvousPolicy. Which member gets which rank is decided in ranks.h.
#pragma once

#include <optional>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class Formation {
 public:
  /// The next generation, once its time has come.
  std::optional<NextGeneration> consider(const GroupState& group, TimePoint now);
  /// When the time of the next generation comes if nothing else changes.
  std::optional<TimePoint> next_deadline(const GroupState& group) const;
  /// A generation has ended: the last call for the next one starts in full.
  void restart_last_call() { last_call_.reset(); }

 private:
  bool closes_elastic(const GroupState& group, TimePoint now);
  bool closes_quorum(const GroupState& group, TimePoint now);
  bool last_call_over(const GroupState& group, TimePoint now);

  std::optional<TimePoint> last_call_;  // when it ends
};

/// How many of the members that ask could get a place.
std::size_t usable(const GroupState& group);
/// Newcomers that would get a place in a formed group.
std::uint32_t waiting(const GroupState& group);

}  // namespace c10dd::core
