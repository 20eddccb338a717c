// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_loader.h"

#include <algorithm>

#include "daemon/core/deadlines.h"
#include "daemon/core/host/commit_gate.h"
#include "daemon/core/host/volatile_number.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

/// The pause before a damaged job may be loaded again. Its clients keep trying, and each load would
/// occupy the engine's thread.
constexpr auto kDamagedPause = std::chrono::minutes(1);

/// How much time of the loop a hello may take while its job is loaded; see still_loading().
constexpr Duration kTimePerHello = std::chrono::microseconds(100);

}  // namespace

void JobLoader::serve(const JobLocation& location, const std::string& job, const std::string& run,
                      std::function<void(Result<JobRef>)> then, bool asks_again) {
  const bool has_engine = context_.is_open(location.generation);
  if (!has_engine && !is_volatile_number(location.number)) {
    return then(context_.cannot_serve("the engine is being reopened"));
  }
  if (!is_volatile_number(location.number) && !context_.lease_holds()) {
    return then(
        context_.cannot_serve("this daemon could not renew its lease on the shared engine"));
  }
  const JobRef slot = slot_of(location, job, run);
  if (slot->name != job || slot->run != run) {
    context_.directory.found_gone();  // the number is of another run by now
    return then(unavailable("the run now has another number; try again"));
  }
  if (slot->serving && !slot->moving) return then(slot);
  if (slot->damaged_until) {
    if (context_.loop.now() < *slot->damaged_until) return then(refusal_of(*slot));
    slot->damaged_until.reset();
    load(slot);
  }
  JobSlot::LoadWaiter waiter;
  waiter.then = [this, slot, then = std::move(then)](const Failure* instead) {
    if (instead != nullptr) return then(*instead);
    if (slot->serving) return then(slot);
    then(refusal_of(*slot));
  };
  if (asks_again && !planted(Planted::load_untold)) {
    const SteadyTime until = context_.loop.now() + limits::kLoadAnswer;
    waiter.until = SteadyTime(shared_tick(TimePoint(until.time_since_epoch())).time_since_epoch());
  }
  wait_for(slot, std::move(waiter));
}

// ---- who waits for a job -----------------------------------------------------------------------

void JobLoader::wait_for(const JobRef& slot, JobSlot::LoadWaiter waiter) {
  if (waiter.until) {
    const auto asks_again = [](const JobSlot::LoadWaiter& other) { return !!other.until; };
    if (std::ranges::none_of(slot->when_loaded, asks_again)) awaited_.push_back(slot);
    next_answer_ = std::min(next_answer_.value_or(*waiter.until), *waiter.until);
  }
  slot->when_loaded.push_back(std::move(waiter));
}

/// Tells all who wait for a job that its load has ended, or has failed.
void JobLoader::end_waits(JobSlot& slot) {
  slot.told_to_retry = 0;
  for (const auto& waiter : std::exchange(slot.when_loaded, {})) waiter.then(nullptr);
}

void JobLoader::tell_waiters() {
  const SteadyTime now = context_.loop.now();
  if (!next_answer_ || now < *next_answer_) return;
  next_answer_.reset();
  for (const JobRef& slot : std::exchange(awaited_, {})) {
    tell_waiters_of(*slot, now);
    bool more = false;
    for (const JobSlot::LoadWaiter& waiter : slot->when_loaded) {
      if (!waiter.until) continue;
      more = true;
      next_answer_ = std::min(next_answer_.value_or(*waiter.until), *waiter.until);
    }
    if (more) awaited_.push_back(slot);
  }
}

void JobLoader::tell_waiters_of(JobSlot& slot, SteadyTime now) {
  const Failure reason = still_loading(slot);
  std::vector<JobSlot::LoadWaiter> told;
  std::erase_if(slot.when_loaded, [&](JobSlot::LoadWaiter& waiter) {
    const bool due = waiter.until && *waiter.until <= now;
    if (due) told.push_back(std::move(waiter));
    return due;
  });
  slot.told_to_retry += told.size();
  for (const JobSlot::LoadWaiter& waiter : told) waiter.then(&reason);
}

/// Returns what a client is told whose hello came while the job was loaded. The more clients there
/// are, the later each of them comes back.
Failure JobLoader::still_loading(const JobSlot& slot) const {
  Failure reason =
      slot.moving ? unavailable(format("{} is being handed to another daemon", described(slot)))
                  : unavailable(format("{} is being loaded: {}", described(slot),
                                       progress_of(table_.load_of(slot))));
  const Duration all = kTimePerHello * static_cast<std::int64_t>(slot.when_loaded.size());
  reason.retry_after = std::clamp<Duration>(all, limits::kLoadRetryMin, limits::kLoadRetryMax);
  // Before its claim, another daemon may own the job, and may declare its members lost.
  const bool owned = slot.job != nullptr || !context_.engine || !context_.engine->shared;
  reason.loading = !slot.moving && owned;
  return reason;
}

void JobLoader::probe(const JobLocation& location, const std::string& job, const std::string& run) {
  if (!context_.is_open(location.generation)) return;
  if (planted(Planted::run_not_probed)) return context_.directory.report_idle(location, false);
  const JobRef slot = slot_of(location, job, run);
  if (slot->serving) table_.touch(slot);
}

/// Returns the slot of a job that this host serves, for a hello or a probe, and marks the job as in
/// use. If the job has no slot yet, creates one and starts to load the job.
JobRef JobLoader::slot_of(const JobLocation& location, const std::string& job,
                          const std::string& run) {
  JobRef slot = table_.find(location.number);
  if (!slot) {
    slot = table_.add(location, job, run);
    slot->is_volatile ? begin_volatile(slot) : load(slot);
  }
  table_.use(*slot, location.lookup);
  return slot;
}

/// Returns why a job could not be loaded, or is served no longer. Reports a job that could not be
/// loaded as idle to the directory, because it gets no session.
Failure JobLoader::refusal_of(const JobSlot& slot) {
  if (slot.refusal) return *slot.refusal;
  if (context_.engine) {
    context_.directory.report_idle(
        {&context_.host, slot.number, context_.engine->generation, slot.lookup}, false);
  }
  return unavailable(format("job \"{}\" could not be loaded: {}", slot.name, slot.load_failure));
}

void JobLoader::load(const JobRef& slot, std::optional<store::Holder> over) {
  slot->load_began = context_.loop.now();
  slot->rows_restored = slot->bytes_restored = 0;
  slot->rows_stored.reset();
  context_.shell.load(
      slot, std::make_shared<store::JobLoad>(
                slot->number, store::ClaimTerms{context_.engine->precondition, slot->entry, over}));
}

/// Handles the reply to a claim that the engine has refused: the job is gone, or another daemon
/// owns it.
void JobLoader::refused_claim(const JobRef& slot, const store::ClaimReply& reply) {
  const auto* holder = std::get_if<store::Holder>(&reply);
  if (holder == nullptr) {
    context_.directory.found_gone();
    return give_up(slot, unavailable(format("run \"{}\" of job \"{}\" was removed by another "
                                            "daemon",
                                            slot->run, slot->name)));
  }
  context_.directory.decide_claim(
      *holder, context_.loop,
      [this, slot, holder = *holder,
       generation = context_.engine->generation](const ClaimDecision& decision) {
        const bool same = context_.is_open(generation);
        if (same && !slot->dropped) claim_decided(slot, holder, decision);
      });
}

void JobLoader::claim_decided(const JobRef& slot, const store::Holder& holder,
                              const ClaimDecision& decision) {
  if (decision.kind == ClaimDecision::Kind::take_over) {
    context_.shell.report(slot.get(),
                          JobTakenOver{decision.owner, holder.owner.epoch, holder.owner.process});
    return load(slot, holder);
  }
  if (decision.kind == ClaimDecision::Kind::redirect) {
    Failure elsewhere = failure(Code::not_owner, "job \"{}\" is served by the daemon at {}",
                                slot->name, decision.owner);
    elsewhere.addresses = decision.addresses;
    return give_up(slot, std::move(elsewhere));
  }
  Failure wait = unavailable(
      decision.owner.empty()
          ? format("job \"{}\" belongs to a daemon that has just joined", slot->name)
          : format(
                "job \"{}\" belongs to the daemon at {}, which is silent; this daemon takes over "
                "the job when the lease of the other one expires",
                slot->name, decision.owner));
  wait.retry_after = decision.again;
  give_up(slot, std::move(wait));
}

/// Ends a load whose claim was refused: all hellos that wait for the job get this failure.
void JobLoader::give_up(const JobRef& slot, Failure refusal) {
  slot->refusal = std::move(refusal);
  dropper_.drop(slot, *slot->refusal);
  end_waits(*slot);
}

/// Starts to serve a volatile run, which is empty. Its number also is its incarnation, because no
/// earlier or later state has the number.
void JobLoader::begin_volatile(const JobRef& slot) {
  const Stamp start{slot->number, 1, 0};
  slot->epoch = start.epoch;
  Quotas quotas = context_.settings.quotas;
  quotas.history_changes = std::min(quotas.history_changes, limits::kVolatileHistoryChanges);
  slot->job = std::make_unique<Job>(slot->number, start, quotas, std::vector<EpochStart>{},
                                    context_.account_of(*slot));
  slot->gate = std::make_unique<CommitGate>(start, false);
  finish(slot, slot->job->resume(context_.now()));
}

void JobLoader::loaded(std::uint64_t generation, const JobRef& slot, store::JobPiece piece) {
  if (!context_.is_open(generation) || slot->dropped) return;
  if (planted(Planted::piece_lost) && !piece.last && slot->job) return;
  slot->pieces.push_back(std::move(piece));
  // The first piece puts the job into loading_. restore_piece() keeps the job in loading_ while the
  // job has pieces left.
  if (slot->pieces.size() == 1) loading_.push_back(slot);
}

void JobLoader::restore_piece() {
  bool no_rows = true;  // a piece without rows, as of a new job, costs nothing
  while (no_rows && !loading_.empty()) {
    const JobRef slot = std::move(loading_.front());
    loading_.pop_front();
    if (slot->dropped) continue;
    no_rows = slot->pieces.front().rows.size() == 0;
    restore_piece_of(slot);
    if (!slot->dropped && !slot->pieces.empty()) loading_.push_back(slot);
  }
}

void JobLoader::restore_piece_of(const JobRef& slot) {
  const store::JobPiece piece = std::move(slot->pieces.front());
  slot->pieces.pop_front();
  const auto* claim = piece.claim ? std::get_if<store::Claim>(&*piece.claim) : nullptr;
  if (piece.claim && claim == nullptr) return refused_claim(slot, *piece.claim);
  if (claim != nullptr && !slot->job) {
    if (const Result<void> whole = check_claim(*slot, *claim); !whole) {
      return finish(slot, whole);
    }
    const Stamp start{context_.engine->incarnation, claim->epoch, claim->revision};
    slot->epoch = planted(Planted::claim_lost) ? 0 : claim->epoch;
    slot->handed_over = claim->revision;
    Quotas quotas = context_.settings.quotas;
    if (context_.engine->in_fleet && !planted(Planted::short_takeover)) {
      quotas.takeover_grace = limits::kTakeoverGrace;
    }
    slot->job = std::make_unique<Job>(slot->number, start, quotas, claim->starts,
                                      context_.account_of(*slot));
    const bool confirm = context_.engine->shared && !planted(Planted::confirmation_skipped);
    slot->gate = std::make_unique<CommitGate>(start, confirm);
    slot->restored = {};
  }
  slot->rows_stored = piece.stored;
  slot->rows_restored += piece.rows.size();
  for (const Row& row : piece.rows) {
    slot->bytes_restored += row.key.size() + row.value.size();
    if (slot->restored) slot->restored = slot->job->restore(row);
  }
  if (!piece.last) return;
  Result<void> good = piece.claim ? slot->restored : Result<void>(piece.claim.error());
  if (good && !planted(Planted::resume_forgotten)) {
    const bool jumps = planted(Planted::clock_jumps_at_restart);
    good = slot->job->resume(jumps ? context_.now() - std::chrono::minutes(10) : context_.now());
  }
  finish(slot, good);
}

/// Fails if the engine has less of a job than this daemon has seen durable.
Result<void> JobLoader::check_claim(const JobSlot& slot, const store::Claim& claim) const {
  const auto seen = durable_.find(slot.number);
  if (seen == durable_.end() || claim.revision >= seen->second) return {};
  return failure(Code::state_rolled_back,
                 "{} is at revision {} in the engine, but revision {} was durable", described(slot),
                 claim.revision, seen->second);
}

/// Ends a load. If the job was restored, or if its rows are damaged, the job keeps its slot. After
/// any other failure, drops the job, so that the next hello loads it again. If the engine is
/// unavailable, or its state is not the one that was read, it is also closed and opened again.
void JobLoader::finish(const JobRef& slot, const Result<void>& result) {
  if (result.has_error() && result.error().code == Code::not_owner) {
    return give_up(slot, unavailable(result.error().detail));  // taken over during the load
  }
  const bool replaced = result.has_error() && result.error().code == Code::state_rolled_back;
  const Result<void> good = replaced ? unavailable(result.error().detail) : result;
  if (good) {
    slot->serving = true;
    table_.touch(slot);
    context_.shell.report(slot.get(), JobServed{});
    context_.shell.report(slot.get(), JobCounted{true});
  } else {
    slot->load_failure = good.error().detail;
    context_.shell.report(slot.get(), JobLoadFailed{slot->load_failure});
  }
  const bool damaged = good.has_error() && good.error().code == Code::malformed;
  if (damaged) {
    context_.shell.report_damage(slot->load_failure);
    slot->damaged_until = context_.loop.now() + kDamagedPause;
    slot->job.reset();
    slot->gate.reset();
  }
  end_waits(*slot);
  if (!good && !damaged) dropper_.drop(slot, good.error());
  if (good.has_error() && good.error().code == Code::unavailable) {
    dropper_.lose_engine(good.error().detail, replaced);
  }
}

void JobLoader::give_up_all(const std::string& why) {
  std::vector<JobRef> jobs;  // a copy: drop() erases
  for (const auto& [number, slot] : table_) jobs.push_back(slot);
  for (const JobRef& slot : jobs) {
    if (slot->is_volatile && !planted(Planted::plain_run_dropped)) continue;
    slot->load_failure = why;
    // A refused hello normally makes its job idle, see refusal_of(). In a fleet the job may soon
    // belong to another daemon, so this daemon must not retire it for that.
    if (context_.in_fleet()) slot->refusal = context_.cannot_serve(why);
    dropper_.drop(slot, context_.cannot_serve(why));
    end_waits(*slot);
  }
}

void JobLoader::engine_opened(std::uint64_t incarnation) {
  if (incarnation != incarnation_) durable_.clear();
  incarnation_ = incarnation;
}

void JobLoader::note_dropped(const JobSlot& slot) {
  if (!context_.in_fleet() || slot.is_volatile) return;
  context_.directory.note_dropped(slot.number);
  Revision& durable = durable_[slot.number];
  if (slot.gate) durable = std::max(durable, slot.gate->stamp().revision);
}

}  // namespace c10dd::core
