// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/shard.h"

#include <boost/asio/post.hpp>

#include "daemon/config/version.h"
#include "daemon/core/job/job.h"
#include "daemon/shard/caused_log.h"
#include "daemon/shard/log_line.h"
#include "protocol/wording.h"
#include "store/job_load.h"

namespace c10dd::daemon {
namespace {

/// The number of rows that are read and restored at once. Reading them occupies the engine's thread
/// for a few milliseconds; restoring them occupies the loop's thread for a few milliseconds.
constexpr std::size_t kPieceRows = 4'096;

}  // namespace

Shard::Shard(Loop& loop, EngineHost& engine_host, const ShardContext& context)
    : loop_(loop),
      engine_host_(engine_host),
      metrics_(context.metrics),
      tally_(context.metrics),
      host_(loop, *this, engine_host.directory(), context.growth,
            {context.options.quotas, kVersion}),
      timer_(loop) {}

// ---- the engine --------------------------------------------------------------------------------

void Shard::engine_opened(const OpenEngine& engine) {
  engine_ = engine;
  host_.engine_opened(engine.state);
}

void Shard::engine_lost(const std::string& why) {
  host_.engine_lost(why);
  engine_.commit.reset();
}

void Shard::commit(store::CommitBatch batch) {
  engine_.commit->submit(std::move(batch),
                         [this, generation = engine_.state.generation](store::CommitResult result) {
                           asio::post(loop_, [this, generation, result = std::move(result)] {
                             host_.committed(generation, result);
                           });
                         });
}

void Shard::load(const core::JobRef& slot, std::shared_ptr<store::JobLoad> load) {
  engine_.commit->post_steps([this, slot, load, intact = engine_.intact,
                              generation = engine_.state.generation](store::Engine& engine) {
    store::JobPiece piece{core::unavailable("the engine did not store the job's number"), {}, true};
    if (*intact) piece = load->next(engine, kPieceRows);
    const bool more = !piece.last;
    asio::post(loop_, [this, slot, generation, piece = std::move(piece)]() mutable {
      host_.loaded(generation, slot, std::move(piece));
    });
    return more;
  });
}

void Shard::hand_over(const core::JobRef& slot, std::uint64_t process) {
  engine_.commit->post([this, slot, process, owner = store::Ownership{slot->number, slot->epoch},
                        generation = engine_.state.generation](store::Engine& engine) {
    asio::post(loop_, [this, slot, generation, done = engine.hand_over(owner, process)] {
      host_.handed_over(generation, slot, done);
    });
  });
}

void Shard::lose_engine(std::uint64_t generation, const std::string& why, bool rolled_back) {
  engine_.commit.reset();
  engine_host_.report_lost(generation, why, rolled_back);
}

void Shard::report_damage(const std::string& what) { engine_host_.report_damage(what); }

// ---- metrics and the log -----------------------------------------------------------------------

void Shard::performed(const core::JobSlot& slot, const core::Effects& effects, const core::Origin*,
                      std::uint64_t) {
  for (const core::Event& event : effects.events) {
    metrics_.event(slot.name, event);
    log_.write(slot.opened_by, slot.name, slot.run, event);
  }
}

void Shard::released(const core::OutgoingReply& reply) {
  const Code outcome = reply.result ? Code::ok : reply.result.error().code;
  const std::int64_t took = reply.arrived_ns == 0 ? 0 : turn_ended_ns_ - reply.arrived_ns;
  tally_.answered(*find_op(reply.op), outcome, Duration(took));
}

void Shard::report(const core::JobSlot* slot, const core::HostEvent& event) {
  if (const auto* counted = std::get_if<core::JobCounted>(&event)) {
    return counted->counted ? metrics_.job_loaded(slot->name) : metrics_.remove_job(slot->name);
  }
  if (const auto* batch = std::get_if<core::BatchCommitted>(&event)) {
    return metrics_.committed(batch->rows, batch->took);
  }
  if (const auto* failed = std::get_if<core::CommitFailed>(&event)) {
    if (failed->outcome == store::Outcome::fenced && !slot->dropped) metrics_.deposed();
    return metrics_.commit_failed(failed->outcome);
  }
  if (const auto* taken = std::get_if<core::JobTakenOver>(&event)) {
    metrics_.job_taken_over();
    return log_warn("event=job_taken_over job={} number={} from={} epoch={}", slot->name,
                    slot->number, taken->owner, taken->epoch);
  }
  if (std::holds_alternative<core::JobServed>(event)) {
    constexpr const char* kLine = "event=job_loaded job={} number={} keys={} epoch={}";
    const std::size_t keys = slot->job->stats().keys;
    if (!slot->is_volatile) {
      const core::LoadReport load = host_.jobs().load_of(*slot);
      return log_caused(slot->opened_by, LogLevel::info,
                        "event=job_loaded job={} number={} keys={} epoch={} rows={} took_ms={}",
                        slot->name, slot->number, keys, slot->epoch, load.rows,
                        std::chrono::ceil<std::chrono::milliseconds>(load.took).count());
    }
    return log_caused(slot->opened_by, LogLevel::info, kLine, slot->name, slot->number, keys,
                      slot->epoch);
  }
  log_caused(slot->opened_by, LogLevel::error, "event=job_load_failed job={} reason={}", slot->name,
             Sentence{std::get<core::JobLoadFailed>(event).reason});
}

std::vector<core::JobReport> Shard::reports() {
  tally_.flush();
  return host_.jobs().reports();
}

// ---- the turn ----------------------------------------------------------------------------------

void Shard::rest(std::function<void()> wake, bool had_some) {
  (had_some ? served_ : starved_).push_back(std::move(wake));
}

void Shard::wake_resting() {
  if (starved_.empty() && served_.empty()) return;
  for (const auto& wake : std::exchange(starved_, {})) wake();
  for (const auto& wake : std::exchange(served_, {})) wake();
}

void Shard::end_turn() {
  turn_ended_ns_ = Duration(loop_.now().time_since_epoch()).count();
  host_.end_turn();
  ++turn_;
  wake_resting();
  arm_timer();
}

/// Sets the timer for the next turn. Does nothing if the timer is already set to that time or to an
/// earlier time, because setting the timer again wakes the loop.
void Shard::arm_timer() {
  const auto next = host_.next_wake();
  if (!next || (timer_set_ && timer_.expiry() <= *next)) return;
  timer_set_ = true;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) timer_set_ = false;  // end_turn() follows and calls arm_timer()
  });
}

void Shard::forget() {
  host_.forget();
  starved_.clear();
  served_.clear();
  timer_.cancel();
}

}  // namespace c10dd::daemon
