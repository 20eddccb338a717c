// SPDX-License-Identifier: Apache-2.0
// Lists the faults that can be planted, keeps the planted one, and reads and writes the file of
// seeds.
#include "tests/sim/plants.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "protocol/format.h"
#include "protocol/parse.h"

namespace c10dd::sim {
namespace {

AnyPlant active = Plant::none;

constexpr PlantInfo kPlants[] = {
    {client::Planted::local_request_twice, "local_request_twice",
     "the proxy passes a request on twice"},
    {client::Planted::local_reply_lost, "local_reply_lost",
     "the proxy keeps the reply to an add to itself"},
    {client::Planted::local_sum_wrong, "local_sum_wrong",
     "an add by a proxy gets a sum that is too small by one"},
    {client::Planted::local_wait_early, "local_wait_early",
     "a wait by a proxy ends before the key exists"},
    {client::Planted::local_wait_not_ended, "local_wait_not_ended",
     "a wait by a proxy goes on although its client has given it up"},
    {client::Planted::local_failure_success, "local_failure_success",
     "the proxy tells a success although the request has failed"},
    {client::Planted::old_group_rests, "old_group_rests",
     "a group with an old operation is reported as rarely as others"},
    {client::Planted::ended_untold, "ended_untold",
     "a process does not tell the last collective that has ended"},
    {client::Planted::hopeless_ignored, "hopeless_ignored",
     "a group that can never go on is not given up"},
    {core::Planted::ack_before_sync, "ack_before_sync",
     "replies leave before the engine has synced"},
    {core::Planted::reads_not_gated, "reads_not_gated", "reads show changes that are not durable"},
    {core::Planted::confirmation_skipped, "confirmation_skipped",
     "a shared engine is not asked which daemon owns a job"},
    {Plant::reply_row_lost, "reply_row_lost", "the batch of a change does not contain its reply"},
    {Plant::effect_row_lost, "effect_row_lost", "large batches lose a key"},
    {Plant::erase_rows_lost, "erase_rows_lost", "removed keys come back after a restart"},
    {Plant::delivery_rows_lost, "delivery_rows_lost", "deliveries of queue items are not stored"},
    {Plant::batch_reversed, "batch_reversed", "the rows of a batch are applied in reverse order"},
    {Plant::fences_ignored, "fences_ignored", "the engine accepts a batch of an older epoch"},
    {Plant::error_is_success, "error_is_success", "a failed commit counts as durable"},
    {Plant::error_is_failure, "error_is_failure",
     "a commit with an unknown result counts as refused"},
    {core::Planted::resume_forgotten, "resume_forgotten", "a restored job is not resumed"},
    {core::Planted::clock_jumps_at_restart, "clock_jumps_at_restart",
     "time counts while the daemon is down"},
    {core::Planted::disconnect_not_reported, "disconnect_not_reported",
     "the job keeps lost sessions as connected"},
    {Plant::acked_below_too_high, "acked_below_too_high",
     "the client lets the daemon forget one reply too many"},
    {Plant::retry_is_new_call, "retry_is_new_call",
     "the client repeats a call under a new sequence number"},
    {Plant::watch_event_lost, "watch_event_lost", "a long reply to a watch misses a change"},
    {Plant::watch_event_twice, "watch_event_twice", "a watch reports a change twice"},
    {core::Planted::stamp_too_new, "stamp_too_new", "replies carry a revision that is not durable"},
    {Plant::rollback_not_noticed, "rollback_not_noticed",
     "a client is accepted that has seen a newer revision"},
    {core::Planted::replies_follow_session, "replies_follow_session",
     "a held reply leaves on a newer connection"},
    {Plant::beats_not_counted, "beats_not_counted", "heartbeats are answered but not recorded"},
    {Plant::list_row_lost, "list_row_lost", "the member list of a generation is not stored"},
    {core::Planted::time_passes_in_drain, "time_passes_in_drain",
     "sessions expire while a drain refuses connections"},
    {Plant::expiry_ignored, "expiry_ignored", "an expired token is good"},
    {Plant::other_job_allowed, "other_job_allowed", "a token is good in the jobs of others, too"},
    {Plant::recheck_left_out, "recheck_left_out",
     "a session goes on although its principal may do nothing any more"},
    {Plant::newer_token_not_shown, "newer_token_not_shown",
     "a client does not show a newer token in time"},
    {Plant::load_unconfirmed, "load_unconfirmed",
     "a job is served from rows that another owner has changed"},
    {core::Planted::deletion_unseen, "deletion_unseen",
     "a get returns \"not found\" before the removal is durable"},
    {core::Planted::beating_blamed, "beating_blamed",
     "a rank counts as silent between two of its heartbeats"},
    {core::Planted::pause_is_final, "pause_is_final",
     "a rank that is silent for less than its ttl counts as stuck"},
    {core::Planted::threads_ignored, "threads_ignored",
     "a circle is stuck although threads of its ranks may go on"},
    {core::Planted::waiting_blamed, "waiting_blamed",
     "those who wait in a collective are taken for the awaited"},
    {core::Planted::restart_accuses, "restart_accuses",
     "ranks count as absent before they can open their groups again"},
    {core::Planted::blocked_untold, "blocked_untold",
     "a rank whose threads all wait is not taken for blocked"},
    {core::Planted::unequal_marks, "unequal_marks",
     "ranks are compared although one has not reached the mark"},
    {core::Planted::rank_of_group_told, "rank_of_group_told",
     "the rank in a group is taken for the rank in the job"},
    {core::Planted::lost_in_operation, "lost_in_operation",
     "a lost rank counts as waiting in its operation"},
    {core::Planted::queue_ignored, "queue_ignored",
     "an operation that has not begun counts as begun"},
    {core::Planted::unsent_ignored, "unsent_ignored", "a sender that has gone on is not noticed"},
    {core::Planted::difference_ignored, "difference_ignored",
     "ranks that have issued different collectives are not noticed"},
    {core::Planted::hopeless_untold, "hopeless_untold",
     "ranks are not told that their group can never go on"},
    {core::Planted::waiter_missed, "waiter_missed", "only the first blocked request is woken"},
    {core::Planted::barrier_early, "barrier_early",
     "a barrier is released before the last arrival"},
    {core::Planted::delivery_leaves_item, "delivery_leaves_item", "an item can be delivered twice"},
    {core::Planted::reply_forgotten, "reply_forgotten", "a repeated request is applied again"},
    {core::Planted::cancel_keeps_delivery, "cancel_keeps_delivery",
     "a cancelled pop keeps its item"},
    {core::Planted::history_start_sinks, "history_start_sinks",
     "a watch skips changes that were dropped"},
    {core::Planted::expiry_not_replaced, "expiry_not_replaced",
     "a key that is set again expires at the old time"},
    {core::Planted::prefix_row_lost, "prefix_row_lost", "a removal by prefix is not stored"},
    {core::Planted::guests_forgotten, "guests_forgotten",
     "arrivals of ended sessions are never removed"},
    {core::Planted::below_min, "below_min", "a generation forms with too few members"},
    {core::Planted::quorum_of_half, "quorum_of_half", "half of the members count as a quorum"},
    {core::Planted::generation_reused, "generation_reused",
     "two member lists have the same generation number"},
    {core::Planted::stale_accepted, "stale_accepted", "a request of an old generation is accepted"},
    {core::Planted::loss_not_reported, "loss_not_reported",
     "members that watch a group do not hear of a loss"},
    {core::Planted::break_not_stored, "break_not_stored",
     "a broken barrier is whole again after a restart"},
    {core::Planted::no_restart_grace, "no_restart_grace", "a restart of the daemon loses members"},
    {core::Planted::last_call_renewed, "last_call_renewed",
     "a restart starts a last call again in full"},
    {core::Planted::return_renewed, "return_renewed",
     "a restart gives an absent member all its time again"},
    {core::Planted::silence_forgotten, "silence_forgotten", "a silent member is never lost"},
    {core::Planted::member_row_lost, "member_row_lost", "a member is not stored"},
    {core::Planted::dead_arrival_counts, "dead_arrival_counts",
     "a barrier counts the arrival of a dead process"},
    {core::Planted::away_is_gone, "away_is_gone",
     "a lost connection counts as the end of a process"},
    {core::Planted::early_after_restart, "early_after_restart",
     "sessions have no time to reconnect after a restart"},
    {core::Planted::owner_ignored, "owner_ignored", "who knows the ID of a session takes it over"},
    {core::Planted::replaced_goes_on, "replaced_goes_on", "a replaced session continues"},
    {core::Planted::old_failure_repeated, "old_failure_repeated",
     "a new launch gets the failure of the previous one"},
    {core::Planted::arrival_bytes_kept, "arrival_bytes_kept",
     "bytes of withdrawn arrivals still count"},
    {core::Planted::outcome_bytes_kept, "outcome_bytes_kept",
     "bytes of dropped outcomes still count"},
    {core::Planted::weight_kept, "weight_kept", "an answered request still counts as blocked"},
    {core::Planted::charge_kept, "charge_kept", "what is held no more is still charged"},
    {core::Planted::late_hello_retired, "late_hello_retired",
     "a run is retired although a hello is on its way"},
    {core::Planted::away_is_idle, "away_is_idle",
     "a run is retired while a session is reconnecting"},
    {core::Planted::run_not_probed, "run_not_probed",
     "after a restart nobody looks for sessions of a run"},
    {core::Planted::room_before_replay, "room_before_replay",
     "a repeated request is refused because it would grow the state"},
    {core::Planted::removal_refused, "removal_refused", "removals are refused on a full disk"},
    {core::Planted::attachment_reused, "attachment_reused",
     "a held reply leaves on a newer connection"},
    {core::Planted::claim_lost, "claim_lost", "a job is served without its epoch"},
    {core::Planted::piece_lost, "piece_lost", "some rows of a job are not restored"},
    {core::Planted::drain_drops, "drain_drops", "a drain ends while replies are held"},
    {core::Planted::drain_looks_once, "drain_looks_once", "a drain ignores messages between loops"},
    {core::Planted::deadline_forgotten, "deadline_forgotten", "a job is not ticked again"},
    {core::Planted::bytes_kept, "bytes_kept", "bytes of an unloaded job still count"},
    {core::Planted::endpoint_forgotten, "endpoint_forgotten",
     "a restarted daemon has no endpoints"},
    {core::Planted::half_read_directory, "half_read_directory",
     "a directory that changes while it is read is taken as it is"},
    {core::Planted::gap_overlooked, "gap_overlooked",
     "changes of the directory that are not kept are skipped"},
    {core::Planted::lease_told_early, "lease_told_early",
     "the port of an endpoint is told before its row is durable"},
    {core::Planted::plain_run_dropped, "plain_run_dropped",
     "a lost engine ends runs that live in memory"},
    {core::Planted::plain_rows_stored, "plain_rows_stored",
     "rows of a run that lives in memory are stored"},
    {core::Planted::run_opened_early, "run_opened_early",
     "a client of a store does not see the keys of the clients before it"},
    {core::Planted::ended_run_kept, "ended_run_kept",
     "a run in memory is refused because of others that have ended"},
    {core::Planted::kept_item_taken, "kept_item_taken",
     "an item that is kept for a session is popped by another one"},
    {core::Planted::reservation_kept, "reservation_kept",
     "an item stays kept for a session that has ended"},
    {core::Planted::deposed_goes_on, "deposed_goes_on",
     "a daemon goes on serving a job of another one"},
    {core::Planted::entry_ignored, "entry_ignored", "a run is claimed that has been retired"},
    {core::Planted::takeover_at_once, "takeover_at_once",
     "a job is taken over while its owner is heard"},
    {core::Planted::short_takeover, "short_takeover",
     "after a takeover members have the time of a restart"},
    {core::Planted::lease_ignored, "lease_ignored",
     "a daemon whose lease is over continues to reply"},
    {core::Planted::claim_past_lease, "claim_past_lease",
     "a daemon whose lease is over binds connections of stock trainers"},
    {core::Planted::deposed_untold, "deposed_untold",
     "connections of stock trainers stay with a daemon that has lost their job"},
    {core::Planted::claim_kept, "claim_kept",
     "a daemon keeps its claim on a job after the last connection of a stock trainer"},
    {core::Planted::ended_stays_bound, "ended_stays_bound",
     "a connection of a stock trainer that has ended still counts for its run"},
    {core::Planted::heartbeat_count_ignored, "heartbeat_count_ignored",
     "an older copy of the shared state is taken for the newest"},
    {core::Planted::rollback_untold, "rollback_untold",
     "a daemon does not heed what another one has noticed"},
    {core::Planted::suspicion_ignored, "suspicion_ignored",
     "a job that has less than was durable is no loss"},
    {core::Planted::rollback_served, "rollback_served", "a state that is rolled back is served"},
    {core::Planted::acceptance_unseen, "acceptance_unseen",
     "a daemon does not see that an operator has accepted a loss"},
    {core::Planted::load_untold, "load_untold", "a hello gets no answer while its job is loaded"},
    {client::Planted::load_is_silence, "load_is_silence",
     "a client does not take it for a sign of life that its job is loaded"},
    {core::Planted::committed_reply_kept, "committed_reply_kept",
     "replies that are durable wait for the next turn"},
};

constexpr std::string_view kHead =
    "# The seed that found each planted fault last. The test sim_planted tries it first, and "
    "searches\n"
    "# only if it finds the fault no longer. This command brings it up to date:\n"
    "#   ./dev sim --plant all --seeds 4000 --first --seeds-file tests/sim/planted_seeds.txt \\\n"
    "#     --write-seeds tests/sim/planted_seeds.txt\n";

/// Adds what a line of the file says. Returns what is wrong with the line; empty if nothing is.
std::string add_line(std::string_view line, PlantSeeds& seeds) {
  const std::size_t space = line.find(' ');
  const std::string_view name = line.substr(0, space);
  const auto seed = space == std::string_view::npos
                        ? std::nullopt
                        : parse_number<std::uint64_t>(line.substr(space + 1));
  if (!seed || *seed == 0) {
    return format("\"{}\" is not \"PLANT SEED\" with one space and a seed above 0", line);
  }
  if (std::ranges::find(kPlants, name, &PlantInfo::name) == std::end(kPlants)) {
    return format("no plant has the name \"{}\"; c10dd-sim --list-plants prints all names", name);
  }
  if (!seeds.emplace(name, *seed).second) return format("{} has a second seed", name);
  return {};
}

}  // namespace

std::span<const PlantInfo> all_plants() { return kPlants; }

void plant(AnyPlant one) { active = one; }
bool planted(Plant one) { return active == AnyPlant(one); }

Result<PlantSeeds> read_plant_seeds(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return failure(Code::not_found, "{} cannot be read: {}; check the path", path,
                   std::strerror(errno));
  }
  PlantSeeds seeds;
  std::string line;
  for (unsigned number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::string wrong = add_line(line, seeds);
    if (wrong.empty()) continue;
    return failure(Code::malformed, "{}:{}: {}; correct the line, or remove it to search again",
                   path, number, wrong);
  }
  return seeds;
}

Result<void> write_plant_seeds(const std::string& path, const PlantSeeds& seeds) {
  std::ofstream file(path);
  file << kHead;
  for (const auto& [name, seed] : seeds) file << name << ' ' << seed << '\n';
  file.close();
  if (file) return {};
  return failure(Code::internal, "{} cannot be written: {}; check the path and the disk", path,
                 std::strerror(errno));
}

}  // namespace c10dd::sim

bool c10dd::core::planted(Planted one) { return sim::active == sim::AnyPlant(one); }
bool c10dd::client::planted(Planted one) { return sim::active == sim::AnyPlant(one); }
