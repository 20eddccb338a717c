// SPDX-License-Identifier: Apache-2.0
// Faults that are planted in the core on purpose, one at a time, to show that the oracles of the
// simulator find them (c10dd-sim --plant all). Only the simulator compiles the faults in; elsewhere
// planted() is the constant false.
#pragma once

namespace c10dd::core {

enum class Planted {
  deletion_unseen,        ///< a reply "not found" does not wait until the deletion is durable
  waiter_missed,          ///< if a token has several waiters, only the first is woken
  barrier_early,          ///< a barrier is released while one rank is still missing
  delivery_leaves_item,   ///< a delivered item can be delivered again
  reply_forgotten,        ///< a repeated request is applied again
  cancel_keeps_delivery,  ///< when a pop is cancelled, its item does not go back to the queue
  history_start_sinks,    ///< a watch gets only some of its changes and does not fail
  expiry_not_replaced,    ///< a key that is set again keeps its old expiry
  prefix_row_lost,        ///< keys that were removed by prefix come back after a restart
  guests_forgotten,       ///< after a restart, a session known only from arrivals never expires
  below_min,              ///< a generation forms with too few members
  quorum_of_half,         ///< half of the living members are enough for a quorum
  generation_reused,      ///< a changed member list keeps its generation number
  stale_accepted,         ///< a barrier accepts an arrival of an older generation
  loss_not_reported,      ///< members that watch a group are not notified of a loss
  break_not_stored,       ///< after a restart, a broken barrier is no longer broken
  no_restart_grace,       ///< after a restart, members are lost before they can come back
  silence_forgotten,      ///< a silent member is never lost
  member_row_lost,        ///< a member is not stored
  dead_arrival_counts,    ///< a barrier is released although one of its sessions is away
  away_is_gone,           ///< a session that lost its connection counts as gone at once
  early_after_restart,    ///< after a restart, sessions count as gone before they can return
  replaced_goes_on,       ///< a session that was replaced can be opened again
  old_failure_repeated,   ///< a new launch fails with the time-out of the previous launch

  // faults that make totals of a job wrong: only an audit detects them
  arrival_bytes_kept,  ///< the bytes of a withdrawn arrival still count
  outcome_bytes_kept,  ///< the bytes of a dropped outcome still count
  change_bytes_kept,   ///< the bytes of a dropped change still count
  weight_kept,         ///< the weight of a blocked request still counts after its reply
  absence_kept,        ///< a barrier still waits for a session that has ended
  totals_kept,         ///< the totals of an ended session are still kept
  call_kept,           ///< after a call is dropped, its rank still counts as having published

  // in the hosts
  ack_before_sync,          ///< replies are sent before the engine has synced
  reads_not_gated,          ///< reads show changes that are not durable
  confirmation_skipped,     ///< a shared engine is not asked which daemon owns the job
  resume_forgotten,         ///< Job::resume() is not called after a restore
  clock_jumps_at_restart,   ///< job time includes the time while the daemon was down
  disconnect_not_reported,  ///< the job is not notified of a lost connection
  stamp_too_new,            ///< the stamp of a reply has a revision that is not durable
  replies_follow_session,   ///< a held reply is sent although its session changed connections
  time_passes_in_drain,     ///< sessions expire while a drain refuses connections
  late_hello_retired,       ///< a run is retired although a hello for this run is on its way
  away_is_idle,             ///< a run is retired although an unconnected session may come back
  run_not_probed,           ///< after a restart, a run is retired without a check for sessions
  room_before_replay,       ///< a repeated request is refused because there is no room
  removal_refused,          ///< a request that frees room is refused because there is no room
  attachment_reused,        ///< a new attachment gets the number of the previous attachment
  claim_lost,               ///< a job is served with epoch 0 instead of the epoch of its claim
  piece_lost,               ///< some rows of a job are not restored
  drain_drops,              ///< a drain ends while replies are still held
  drain_looks_once,         ///< a drain ends while a request is on its way to another event loop
  deadline_forgotten,       ///< a job is not ticked when its new deadline comes
  bytes_kept,               ///< the bytes of a dropped job still count
  committed_reply_kept,     ///< a commit that becomes durable does not release its replies
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::core
