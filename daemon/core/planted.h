// SPDX-License-Identifier: Apache-2.0
// Faults that are planted in the core on purpose, one at a time, to show that the simulator's
// oracles find them: c10dd-sim --plant all. Only the simulator compiles them in; elsewhere
// planted() is the constant false.
#pragma once

namespace c10dd::core {

enum class Planted {
  deletion_unseen,        ///< "not found" does not wait for the deletion to be durable
  waiter_missed,          ///< of the waiters of one token, only the first is woken
  barrier_early,          ///< a barrier is released when one rank is missing
  delivery_leaves_item,   ///< a delivered item can be delivered again
  reply_forgotten,        ///< a repeated request is applied again
  cancel_keeps_delivery,  ///< the item of a cancelled pop does not go back to its queue
  history_start_sinks,    ///< a watch gets some of its changes instead of compacted
  expiry_not_replaced,    ///< a key that is set again keeps its old expiry
  prefix_row_lost,        ///< keys removed by prefix come back after a restart
  guests_forgotten,       ///< after a restart, sessions that only arrived never expire
  below_min,              ///< a generation forms with too few members
  quorum_of_half,         ///< half of the members alive are enough for a quorum
  generation_reused,      ///< a changed member list keeps its generation number
  stale_accepted,         ///< a bound request of an older generation takes part
  loss_not_reported,      ///< members that watch a group do not hear of a loss
  break_not_stored,       ///< a broken barrier is not broken after a restart
  no_restart_grace,       ///< after a restart members are lost before they can come back
  silence_forgotten,      ///< a silent member is never lost
  member_row_lost,        ///< a member is not stored
  dead_arrival_counts,    ///< a barrier is released though an arrived session has no connection
  away_is_gone,           ///< a session that lost its connection is taken for gone at once
  early_after_restart,    ///< after a restart sessions are taken for gone before they can return
  replaced_goes_on,       ///< a session that was replaced may come back
  old_failure_repeated,   ///< a new launch fails with the time-out of the previous one

  // sums that only an audit checks
  arrival_bytes_kept,  ///< the bytes of a withdrawn arrival still count
  outcome_bytes_kept,  ///< the bytes of a dropped outcome still count
  change_bytes_kept,   ///< the bytes of a dropped change still count
  weight_kept,         ///< the weight of an answered request still counts
  absence_kept,        ///< a barrier still waits for a session that has ended
  totals_kept,         ///< the totals of an ended session are kept
  call_kept,           ///< a call that has ended is still published by its rank

  // in the hosts
  ack_before_sync,          ///< replies leave before the engine has synced
  reads_not_gated,          ///< reads show what is not durable
  confirmation_skipped,     ///< a shared engine is not asked which daemon owns the job
  resume_forgotten,         ///< a restored job is not resumed
  clock_jumps_at_restart,   ///< time passed while the daemon was down
  disconnect_not_reported,  ///< the job is not notified of a lost connection
  stamp_too_new,            ///< replies carry a revision that is not durable
  replies_follow_session,   ///< a held reply leaves on a newer connection
  time_passes_in_drain,     ///< sessions expire while a drain refuses connections
  late_hello_retired,       ///< a run is retired though a hello for it is on its way
  away_is_idle,          ///< a run is retired though a session without a connection may come back
  run_not_probed,        ///< after a restart a run is retired without a look at its sessions
  room_before_replay,    ///< a repeated request is refused because there is no room
  removal_refused,       ///< a request that frees room is refused because there is no room
  attachment_reused,     ///< replies held for an older connection leave on a newer one
  claim_lost,            ///< a loaded job is served without the epoch of its claim
  piece_lost,            ///< some rows of a job are not restored
  drain_drops,           ///< a drain ends while replies are held
  drain_looks_once,      ///< a drain ends while a request is on its way to another loop
  deadline_forgotten,    ///< a job is not ticked again after its deadline has moved
  bytes_kept,            ///< the bytes of a dropped job still count
  committed_reply_kept,  ///< replies whose rows are durable wait until something else happens
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::core
