// SPDX-License-Identifier: Apache-2.0
// The list of faults that can be planted, and the one that is.
#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

AnyPlant active = Plant::none;

constexpr PlantInfo kPlants[] = {
    {core::Planted::ack_before_sync, "ack_before_sync", "answers leave when the engine is asked"},
    {core::Planted::reads_not_gated, "reads_not_gated", "reads show what is not durable"},
    {core::Planted::confirmation_skipped, "confirmation_skipped",
     "a shared engine is not asked who owns"},
    {Plant::reply_row_lost, "reply_row_lost", "the reply is not in the batch of its effect"},
    {Plant::effect_row_lost, "effect_row_lost", "large batches lose a key"},
    {Plant::erase_rows_lost, "erase_rows_lost", "removed keys come back after a restart"},
    {Plant::delivery_rows_lost, "delivery_rows_lost", "deliveries of queue items are not stored"},
    {Plant::batch_reversed, "batch_reversed", "rows of a batch are applied in the wrong order"},
    {Plant::fences_ignored, "fences_ignored", "a batch of an older epoch is taken"},
    {Plant::error_is_success, "error_is_success", "a failed commit counts as durable"},
    {Plant::error_is_failure, "error_is_failure", "a failed commit is answered as refused"},
    {core::Planted::resume_forgotten, "resume_forgotten", "a restored job is not resumed"},
    {core::Planted::clock_jumps_at_restart, "clock_jumps_at_restart",
     "time passed while it was down"},
    {core::Planted::disconnect_not_told, "disconnect_not_told", "the job keeps sessions connected"},
    {Plant::acked_below_too_high, "acked_below_too_high", "one reply too many is forgotten"},
    {Plant::retry_is_new_call, "retry_is_new_call", "the client repeats under a new number"},
    {Plant::watch_event_lost, "watch_event_lost", "a change is missing from a long answer"},
    {Plant::watch_event_twice, "watch_event_twice", "a change is told twice"},
    {core::Planted::stamp_too_new, "stamp_too_new", "answers carry a revision that is not durable"},
    {Plant::rollback_not_noticed, "rollback_not_noticed", "a client that has seen more is let in"},
    {core::Planted::replies_follow_session, "replies_follow_session",
     "a held answer leaves on a newer link"},
    {Plant::beats_not_counted, "beats_not_counted", "heartbeats are answered and forgotten"},
    {Plant::list_row_lost, "list_row_lost", "the list of a generation is not stored"},
    {core::Planted::time_passes_in_drain, "time_passes_in_drain",
     "sessions end before a closed door"},
    {Plant::load_unconfirmed, "load_unconfirmed", "rows are taken that another owner changed"},
    {core::Planted::deletion_unseen, "deletion_unseen", "\"not found\" before that is durable"},
    {core::Planted::waiter_missed, "waiter_missed", "only the first who waits is woken"},
    {core::Planted::barrier_early, "barrier_early", "a barrier is released without the last"},
    {core::Planted::delivery_leaves_item, "delivery_leaves_item", "an item can be claimed twice"},
    {core::Planted::reply_forgotten, "reply_forgotten", "a repeated request is applied again"},
    {core::Planted::cancel_keeps_delivery, "cancel_keeps_delivery",
     "a cancelled pop keeps its item"},
    {core::Planted::history_start_sinks, "history_start_sinks", "a watch skips what was forgotten"},
    {core::Planted::life_not_replaced, "life_not_replaced", "a key set again ends at the old time"},
    {core::Planted::prefix_row_lost, "prefix_row_lost", "a removal by prefix is not stored"},
    {core::Planted::guests_forgotten, "guests_forgotten", "arrivals of the dead are kept for ever"},
    {core::Planted::below_min, "below_min", "a generation forms with too few"},
    {core::Planted::quorum_of_half, "quorum_of_half", "half of the living are a quorum"},
    {core::Planted::generation_reused, "generation_reused", "another list has an old number"},
    {core::Planted::stale_accepted, "stale_accepted", "a request of an old generation takes part"},
    {core::Planted::loss_untold, "loss_untold", "who follows is not told of a loss"},
    {core::Planted::break_not_stored, "break_not_stored", "a broken barrier is whole again"},
    {core::Planted::no_restart_grace, "no_restart_grace", "after a restart members are lost"},
    {core::Planted::silence_forgotten, "silence_forgotten", "a silent member is never lost"},
    {core::Planted::member_row_lost, "member_row_lost", "a member is not stored"},
    {core::Planted::dead_arrival_counts, "dead_arrival_counts", "released with a dead process"},
    {core::Planted::away_is_gone, "away_is_gone", "a lost connection is taken for a death"},
    {core::Planted::early_after_restart, "early_after_restart", "nobody has time to come back"},
    {core::Planted::replaced_goes_on, "replaced_goes_on", "a replaced session continues"},
    {core::Planted::old_failure_told, "old_failure_told", "a launch fails as the last one did"},
    {core::Planted::arrival_bytes_kept, "arrival_bytes_kept", "bytes of the withdrawn still count"},
    {core::Planted::outcome_bytes_kept, "outcome_bytes_kept", "bytes of dropped outcomes count"},
    {core::Planted::weight_kept, "weight_kept", "an answered request still counts as blocked"},
    {core::Planted::late_hello_retired, "late_hello_retired",
     "a run is retired before a hello comes"},
    {core::Planted::away_is_idle, "away_is_idle", "a run is retired while a session is away"},
    {core::Planted::run_not_probed, "run_not_probed", "after a restart nobody looks for sessions"},
    {core::Planted::room_before_replay, "room_before_replay",
     "a repeated request is refused, as it grows"},
    {core::Planted::removal_refused, "removal_refused", "removals are refused on a full disk"},
    {core::Planted::attachment_reused, "attachment_reused", "a held answer leaves on a newer link"},
    {core::Planted::claim_lost, "claim_lost", "a job is served without its epoch"},
    {core::Planted::piece_lost, "piece_lost", "some rows of a job are not restored"},
    {core::Planted::drain_drops, "drain_drops", "a drain ends while answers are held"},
    {core::Planted::drain_looks_once, "drain_looks_once", "a drain forgets what crosses loops"},
    {core::Planted::deadline_forgotten, "deadline_forgotten", "a job is not ticked again"},
    {core::Planted::bytes_kept, "bytes_kept", "bytes of a job that was given up still count"},
    {core::Planted::committed_untold, "committed_untold", "durable answers wait for the next turn"},
};

}  // namespace

std::span<const PlantInfo> all_plants() { return kPlants; }

void plant(AnyPlant one) { active = one; }
bool planted(Plant one) { return active == AnyPlant(one); }

}  // namespace c10dd::sim

bool c10dd::core::planted(Planted one) { return sim::active == sim::AnyPlant(one); }
