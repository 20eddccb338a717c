// SPDX-License-Identifier: Apache-2.0
// Answers the operations on groups, and updates barriers and waiters when a group has changed.
#pragma once

#include "daemon/core/job/barrier_ops.h"

namespace c10dd::core {

class GroupOps {
 public:
  GroupOps(Groups& groups, BarrierOps& barrier_ops, Waits& waits)
      : groups_(groups), barrier_ops_(barrier_ops), waits_(waits) {}

  OptionalReply on(Step& step, const Join& join);
  OptionalReply on(Step& step, const ReadMembers& read);
  OptionalReply on(Step& step, const Leave& leave);
  OptionalReply on(Step& step, const WatchGroup& watch);
  OptionalReply on(Step& step, const Notify& request);
  OptionalReply on(Step& step, const Acknowledge& request);
  OptionalReply on(Step& step, const Progress& report);

  /// Settles each group that was touched in this step: forms a generation if the group can form
  /// one. If the status has changed, breaks barriers that can no longer complete, and signals the
  /// waiters of the group. Part of Job::settle().
  void settle(Step& step);

 private:
  Groups& groups_;
  BarrierOps& barrier_ops_;
  Waits& waits_;
};

}  // namespace c10dd::core
