// SPDX-License-Identifier: Apache-2.0
// Faults planted in the core on purpose, one at a time, to show that the simulator's oracles find
// them: c10dd-sim --plant all. Only the simulator compiles them in; elsewhere each is the constant
// false.
#pragma once

namespace c10dd::core {

enum class Planted {
  deletion_unseen,        ///< "not found" does not wait for the deletion to be durable
  waiter_missed,          ///< of those who wait for one thing, only the first is woken
  barrier_early,          ///< released when one rank is missing
  delivery_leaves_item,   ///< a delivered item can be claimed again
  reply_forgotten,        ///< a repeated request is applied again
  cancel_keeps_delivery,  ///< the item of a cancelled pop does not come back
  history_start_sinks,    ///< a watch is told less than all, instead of compacted
  life_not_replaced,      ///< a key set again still ends when it was to end before
  prefix_row_lost,        ///< keys removed by prefix are there again after a restart
  guests_forgotten,       ///< after a restart nobody waits for the end of those who only arrived
  below_min,              ///< a generation forms with too few
  quorum_of_half,         ///< half of the living are enough for a quorum
  generation_reused,      ///< another list under the same generation
  stale_accepted,         ///< a bound request of an older generation takes part
  loss_untold,            ///< a loss is not told to those who follow
  break_not_stored,       ///< a broken barrier is whole again after a restart
  no_restart_grace,       ///< after a restart members are lost before they can come back
  silence_forgotten,      ///< a silent member is never lost
  member_row_lost,        ///< a member is not stored
  dead_arrival_counts,    ///< a barrier is released though somebody who arrived has no connection
  away_is_gone,           ///< a session that lost its connection is taken for dead at once
  early_after_restart,    ///< after a restart sessions are taken for dead before they can come back
  replaced_goes_on,       ///< a session whose rank was given to another may come back
  old_failure_told,       ///< a new launch fails with the time-out of the one before

  // sums that only an audit looks at
  arrival_bytes_kept,  ///< the bytes of an arrival that was withdrawn still count
  outcome_bytes_kept,  ///< so do those of an outcome that was dropped
  change_bytes_kept,   ///< and those of a change that is too old
  weight_kept,         ///< a blocked request counts when it is answered
  absence_kept,        ///< a session that has ended is still waited for
  totals_kept,         ///< the totals of a session stay when it has ended
  call_kept,           ///< a rank whose call has ended has still published one

  // in the hosts
  ack_before_sync,         ///< answers leave when the engine is asked
  reads_not_gated,         ///< reads show what is not durable
  confirmation_skipped,    ///< a shared engine is not asked who owns the job
  resume_forgotten,        ///< a restored job is not resumed
  clock_jumps_at_restart,  ///< time passed while the daemon was down
  disconnect_not_told,     ///< the job keeps sessions connected
  stamp_too_new,           ///< answers carry a revision that is not durable
  replies_follow_session,  ///< a held answer leaves on a newer connection
  time_passes_in_drain,    ///< sessions end though the daemon takes no connection
  late_hello_retired,      ///< a run is retired though a hello for it is on its way
  away_is_idle,            ///< a run is retired though a session without a connection may come back
  run_not_probed,          ///< after a restart a run is retired without a look at its sessions
  room_before_replay,      ///< a repeated request is refused for want of room
  removal_refused,         ///< what makes room is refused for want of room
  attachment_reused,       ///< the answers held for an older connection leave on a newer one
  claim_lost,              ///< a loaded job is served without the epoch of its claim
  piece_lost,              ///< a piece of the rows of a job is not restored
  drain_drops,             ///< a drain ends while answers are held
  drain_looks_once,        ///< a drain ends while a request is on its way to another loop
  deadline_forgotten,      ///< a job is not ticked again after its deadline has moved
  bytes_kept,              ///< the bytes of a job that was given up still count
  committed_untold,        ///< answers whose rows are durable wait until something else happens
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::core
