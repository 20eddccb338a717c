// SPDX-License-Identifier: Apache-2.0
// Faults that are planted in the core on purpose, one at a time, to show that the oracles of the
// simulator find them (c10dd-sim --plant all). Only the simulator compiles the faults in; elsewhere
// planted() is the constant false.
#pragma once

namespace c10dd::core {

enum class Planted {
  deletion_unseen,         ///< fault: a reply "not found" is sent before the deletion is durable
  waiter_missed,           ///< fault: only the first of several waiters for a token is woken
  barrier_early,           ///< fault: a barrier is released while one rank is still missing
  delivery_leaves_item,    ///< fault: a delivered item can be delivered again
  kept_item_taken,         ///< fault: an item that is kept for a session is popped by another one
  reply_forgotten,         ///< fault: a repeated request is applied again
  cancel_keeps_delivery,   ///< fault: the item of a cancelled pop does not go back to the queue
  history_start_sinks,     ///< fault: a watch gets only some of its changes and does not fail
  expiry_not_replaced,     ///< fault: a key that is set again keeps its old expiry
  prefix_row_lost,         ///< fault: keys that were removed by prefix come back after a restart
  guests_forgotten,        ///< fault: sessions named only in barriers never expire after a restart
  disagreement_told_once,  ///< fault: only one of the ranks that disagree is told
  below_min,               ///< fault: a generation forms with too few members
  quorum_of_half,          ///< fault: half of the living members are enough for a quorum
  generation_reused,       ///< fault: a changed member list keeps its generation number
  stale_accepted,          ///< fault: a barrier accepts an arrival of an older generation
  loss_not_reported,       ///< fault: members that watch a group are not notified of a loss
  break_not_stored,        ///< fault: after a restart, a broken barrier is no longer broken
  no_restart_grace,        ///< fault: after a restart, members are lost before they can come back
  last_call_renewed,       ///< fault: a restart starts a last call again in full
  return_renewed,          ///< fault: a restart gives an absent member all its time again
  silence_forgotten,       ///< fault: a silent member is never lost
  member_row_lost,         ///< fault: a member is not stored
  dead_arrival_counts,     ///< fault: a barrier is released although one of its sessions is away
  away_is_gone,            ///< fault: a session that lost its connection counts as gone at once
  early_after_restart,   ///< fault: after a restart, sessions count as gone before they can return
  owner_ignored,         ///< fault: who knows the ID of a session takes it over
  replaced_goes_on,      ///< fault: a session that was replaced can be opened again
  old_failure_repeated,  ///< fault: a new launch fails with the time-out of the previous launch

  // faults that make the totals of a job wrong; only an audit detects these faults
  arrival_bytes_kept,  ///< fault: the bytes of a withdrawn arrival still count
  outcome_bytes_kept,  ///< fault: the bytes of a dropped outcome still count
  change_bytes_kept,   ///< fault: the bytes of a dropped change still count
  weight_kept,         ///< fault: the weight of a blocked request still counts after its reply
  absence_kept,        ///< fault: a barrier still waits for a session that has ended
  totals_kept,         ///< fault: the totals of an ended session are still kept
  reservation_kept,    ///< fault: an item is still kept for a session that has ended
  charge_kept,         ///< fault: memory that is held no more is still charged
  beating_blamed,      ///< fault: a rank counts as silent between two of its heartbeats
  pause_is_final,      ///< fault: a rank that is silent for less than its ttl counts as stuck

  // in the diagnosis of process groups; the stories of hangs find these faults (hang_story.h)
  waiting_blamed,      ///< fault: those who wait in a collective are taken for the awaited
  restart_accuses,     ///< fault: ranks count as absent before they can open their groups again
  blocked_untold,      ///< fault: a rank whose threads all wait is not taken for blocked
  threads_ignored,     ///< fault: a circle is stuck although threads of its ranks may go on
  unequal_marks,       ///< fault: ranks are compared although one has not reached the mark
  rank_of_group_told,  ///< fault: the rank in a group is taken for the rank in the job
  lost_in_operation,   ///< fault: a lost rank counts as waiting in its operation
  queue_ignored,       ///< fault: an operation that has not begun counts as begun
  unsent_ignored,      ///< fault: a sender that has gone on is not noticed
  difference_ignored,  ///< fault: ranks that have issued different collectives are not noticed
  hopeless_untold,     ///< fault: ranks are not told that their group can never go on
  closed_counts,       ///< fault: a process group that a session has closed still counts as open

  // in PlainRuns and VolatileRuns; the stories of launches find these faults (launch_stories.h)
  join_end_forgotten,  ///< fault: a launch shares the run of the launch before it
  run_opened_early,   ///< fault: a client of a store does not see the keys of the clients before it
  ended_run_kept,     ///< fault: a run that has ended keeps its place although there is no other
  own_run_forgotten,  ///< fault: a process that joins again leaves its run
  clone_to_current,   ///< fault: a further connection of a process is bound to another run
  rank_key_set_again,  ///< fault: two processes set the key of one rank
  young_run_spared,    ///< fault: ranks of a young run go on after a stranger had a rank's key
  quiet_run_closed,    ///< fault: a quiet run is closed because of a newcomer
  dead_holder_counts,  ///< fault: the key of a rank whose connection has ended is not set again

  // in the hosts
  endpoint_forgotten,       ///< fault: an endpoint is not restored
  half_read_directory,      ///< fault: a directory that changed while it was read is taken as it is
  gap_overlooked,           ///< fault: changes of the directory that are not kept are skipped
  lease_told_early,         ///< fault: the port of an endpoint is told before its row is durable
  plain_run_dropped,        ///< fault: a lost engine ends the runs that live in memory
  plain_rows_stored,        ///< fault: rows of a run that lives in memory go to the engine
  ack_before_sync,          ///< fault: replies are sent before the engine has synced
  reads_not_gated,          ///< fault: reads show changes that are not durable
  deposed_goes_on,          ///< fault: a daemon goes on serving a job that another one owns
  entry_ignored,            ///< fault: a run is claimed although the directory no longer has it
  takeover_at_once,         ///< fault: a job is taken over before its owner was silent for a lease
  short_takeover,           ///< fault: after a takeover, members have the time of a restart
  claim_past_lease,         ///< fault: a daemon whose lease is over binds connections
  deposed_untold,           ///< fault: connections stay with a daemon that has lost the job
  claim_kept,               ///< fault: a daemon keeps its claim on a job without connections
  ended_stays_bound,        ///< fault: a connection that has ended still counts for its run
  lease_ignored,            ///< fault: a daemon whose lease is over goes on answering
  confirmation_skipped,     ///< fault: a shared engine is not asked which daemon owns the job
  load_untold,              ///< fault: a hello gets no answer while its job is loaded
  resume_forgotten,         ///< fault: Job::resume() is not called after a restore
  clock_jumps_at_restart,   ///< fault: job time includes the time while the daemon was down
  disconnect_not_reported,  ///< fault: the job is not notified of a lost connection
  stamp_too_new,            ///< fault: the stamp of a reply has a revision that is not durable
  replies_follow_session,   ///< fault: a held reply is sent to a newer attachment of its session
  time_passes_in_drain,     ///< fault: sessions expire while a drain refuses connections
  late_hello_retired,       ///< fault: a run is retired although a hello for it is on its way
  away_is_idle,             ///< fault: a run is retired although an away session may return
  run_not_probed,           ///< fault: a restart retires a run and does not check its sessions
  room_before_replay,       ///< fault: a repeated request is refused because there is no room
  removal_refused,          ///< fault: a request that frees room is refused for lack of room
  attachment_reused,        ///< fault: held replies of an ended attachment go to a new connection
  claim_lost,               ///< fault: a job is served with epoch 0, not the epoch of its claim
  piece_lost,               ///< fault: some rows of a job are not restored
  heartbeat_count_ignored,  ///< fault: a state without its newest changes is taken for the same
  rollback_untold,          ///< fault: a daemon does not heed what another one has noticed
  suspicion_ignored,        ///< fault: a claim that finds less than was durable is no loss
  acceptance_unseen,     ///< fault: a daemon stays closed although an operator has accepted a loss
  rollback_served,       ///< fault: a state that was rolled back is served again
  drain_drops,           ///< fault: a drain ends while replies are still held
  drain_looks_once,      ///< fault: a drain ends while a request is on its way to a second loop
  deadline_forgotten,    ///< fault: a job is not ticked when its new deadline comes
  bytes_kept,            ///< fault: the bytes of a dropped job still count
  committed_reply_kept,  ///< fault: a commit that becomes durable does not release its replies
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::core
