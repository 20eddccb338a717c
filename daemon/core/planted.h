// SPDX-License-Identifier: Apache-2.0
// Faults planted in the core on purpose, one at a time, to show that the simulator's oracles find
// them: c10dd-sim --plant all. Only the simulator compiles them in; elsewhere each is the constant
// false.
#pragma once

namespace c10dd::core {

enum class Planted {
  deletion_unseen,      ///< "not found" does not wait for the deletion to be durable
  waiter_missed,        ///< of those who wait for one thing, only the first is woken
  barrier_early,        ///< released when one rank is missing
  claim_leaves_item,    ///< a claimed item can be claimed again
  reply_forgotten,      ///< a repeated request is applied again
  cancel_keeps_claim,   ///< the item of a cancelled pop does not come back
  history_start_sinks,  ///< a watch is told less than all, instead of compacted
  life_not_replaced,    ///< a key set again still ends when it was to end before
  prefix_row_lost,      ///< keys removed by prefix are there again after a restart
  guests_forgotten,     ///< after a restart nobody waits for the end of those who only arrived
  below_min,            ///< a generation forms with too few
  quorum_of_half,       ///< half of the living are enough for a quorum
  generation_reused,    ///< another list under the same generation
  stale_accepted,       ///< a bound request of an older generation takes part
  loss_untold,          ///< a loss is not told to those who follow
  break_not_stored,     ///< a broken meeting is whole again after a restart
  no_restart_grace,     ///< after a restart members are lost before they can come back
  silence_forgotten,    ///< a silent member is never lost
  member_row_lost,      ///< a member is not stored
  dead_arrival_counts,  ///< a barrier is released though somebody who arrived has no connection
  away_is_gone,         ///< a session that lost its connection is taken for dead at once
  early_after_restart,  ///< after a restart sessions are taken for dead before they can come back
  replaced_goes_on,     ///< a session whose rank was given to another may come back
  old_failure_told,     ///< a new launch fails with the time-out of the one before
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::core
