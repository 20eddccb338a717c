// SPDX-License-Identifier: Apache-2.0
// The turn: requests in, effects out, one round at the engine at a time, answers when durable.
// Opening and losing jobs is in shard_jobs.cc, loading them in shard_load.cc.
#include "daemon/shard/shard.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

std::int64_t steady_ns() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Of the job's data, which an answer has a copy of.
std::size_t copied_bytes(const Answer& answer) {
  std::size_t bytes = 0;
  if (!answer) return bytes;
  if (const auto* value = std::get_if<Value>(&*answer)) return value->value.size();
  if (const auto* values = std::get_if<Values>(&*answer)) {
    for (const Bytes& value : values->values) bytes += value.size();
  } else if (const auto* page = std::get_if<KeyPage>(&*answer)) {
    for (const Bytes& key : page->keys) bytes += key.size();
  } else if (const auto* changes = std::get_if<Changes>(&*answer)) {
    for (const Change& change : changes->changes) bytes += change.key.size() + change.value.size();
  }
  return bytes;
}

}  // namespace

Shard::Shard(asio::io_context& loop, EngineHost& host, const House& house)
    : loop_(loop),
      host_(host),
      metrics_(house.metrics),
      tally_(house.metrics),
      growth_(house.growth),
      quotas_(house.options.quotas),
      timer_(loop) {}

Shard::~Shard() = default;

void Shard::submit(const JobRef& slot, const core::Origin& from, const core::CallId& call,
                   Request request) {
  if (!mine(slot)) {
    asio::post(slot->owner.loop(), [slot, from, call, request = std::move(request)]() mutable {
      slot->owner.submit(slot, from, call, std::move(request));
    });
    return;
  }
  if (slot->dropped) return;  // its connections are being told
  if (refuse_growth(slot, from, call, request)) return;
  perform(slot, slot->job->apply(from, call, request, time_.now()));
}

/// Whether it was refused for want of room. Not what was applied before: that gets its answer.
bool Shard::refuse_growth(const JobRef& slot, const core::Origin& from, const core::CallId& call,
                          const Request& request) {
  std::optional<Failure> refused = growth_.refuses(request);
  if (!refused || slot->job->repeats(from, call, request)) return false;
  core::Effects effects;
  core::Reply& reply = effects.replies.emplace_back();
  reply.to = from.session;
  reply.sequence = call.sequence;
  reply.op = info_of(request).code;
  reply.kind = OpKind::event;  // it shows no state
  reply.answer = std::move(*refused);
  reply.arrived_ns = call.arrived_ns;
  effects.revision = slot->job->revision();
  perform(slot, std::move(effects));
  return true;
}

void Shard::detach(const JobRef& slot, const SessionId& session, const AnswerSink* sink) {
  if (!mine(slot)) {
    // Only compared, never used: by then the connection may be gone.
    asio::post(slot->owner.loop(),
               [slot, session, sink] { slot->owner.detach(slot, session, sink); });
    return;
  }
  const auto it = slot->attached.find(session);
  if (slot->dropped || it == slot->attached.end() || it->second.sink->connection() != sink) return;
  slot->attached.erase(it);
  perform(slot, slot->job->disconnect(session, time_.now()));
}

void Shard::heard(const JobRef& slot, std::uint64_t connection) {
  if (!mine(slot)) {
    asio::post(slot->owner.loop(), [slot, connection] { slot->owner.heard(slot, connection); });
  } else if (!slot->dropped) {
    slot->job->heard(connection, time_.now());
  }
}

// ---- fairness ----------------------------------------------------------------------------------

bool Shard::charge(const JobRef& job, std::size_t bytes) {
  TurnUse& use = mine(job) ? job->use : foreign_use_;
  use.add(bytes);
  if (mine(job)) touch(job);
  return use.spent();
}

bool Shard::spent(const JobRef& job) const {
  return mine(job) ? job->use.spent() : foreign_use_.spent();
}

void Shard::rest(std::function<void()> wake, bool had_some) {
  (had_some ? served_ : starved_).push_back(std::move(wake));
}

void Shard::wake_resting() {
  for (const auto& wake : std::exchange(starved_, {})) wake();
  for (const auto& wake : std::exchange(served_, {})) wake();
}

// ---- the turn ----------------------------------------------------------------------------------

void Shard::perform(const JobRef& slot, core::Effects effects) {
  for (Row& row : effects.rows) slot->rows.push_back(std::move(row));
  for (core::Reply& reply : effects.replies) {
    const auto it = slot->attached.find(reply.to);
    if (it != slot->attached.end()) reply.attachment = it->second.number;
    slot->use.answered(copied_bytes(reply.answer));
    slot->gate->hold(std::move(reply));
  }
  for (const core::Event& event : effects.events) {
    metrics_.event(slot->name, event);
    log_.write(slot->name, event);
  }
  if (engine_.is_volatile) {
    slot->job->seal(slot->rows);
    slot->rows.clear();
    slot->gate->committed(effects.revision);
    slot->job->durable(effects.revision);
  }
  touch(slot);
}

void Shard::touch(const JobRef& slot) {
  if (std::exchange(slot->touched, true)) return;
  touched_.push_back(slot);
}

void Shard::end_turn() {
  const TimePoint now = time_.end_turn();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const JobRef slot = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    slot->deadline.reset();
    if (!slot->dropped) perform(slot, slot->job->tick(now));
  }
  start_round();
  for (const JobRef& slot : std::exchange(touched_, {})) {
    slot->touched = false;
    slot->use = {};
    if (!slot->serving) continue;
    watch_deadline(slot);
    watch_vacancy(slot);
    count_bytes(slot);
    const bool waits = !slot->rows.empty() || slot->gate->wants_confirmation();
    release(slot);
    if (waits) touch(slot);  // for the next round
  }
  for (const std::shared_ptr<AnswerSink>& sink : to_flush_) sink->flush();
  to_flush_.clear();
  ++turn_;
  foreign_use_ = {};
  wake_resting();
  arm_timer();
}

void Shard::count_bytes(const JobRef& slot) {
  const core::JobStats stats = slot->job->stats();
  const std::size_t bytes = stats.bytes + stats.queue_bytes + stats.history_bytes;
  if (bytes == slot->bytes) return;
  growth_.add_bytes(static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(slot->bytes));
  slot->bytes = bytes;
}

/// Requests whose answers wait for a round.
std::size_t Shard::waiting() const {
  std::size_t all = 0;
  for (const JobRef& slot : touched_) {
    if (slot->serving) all += slot->gate->held();
  }
  return all;
}

/// Hands what has gathered to the engine, unless a round is under way or others are waited for.
void Shard::start_round() {
  if (round_in_flight_ || !engine_.commit || engine_.is_volatile) return;
  const std::size_t requests = waiting();
  if (!pace_.ready(std::chrono::steady_clock::now(), requests)) return;
  store::Round round;
  std::size_t written = 0;
  for (const JobRef& slot : touched_) {
    if (!slot->serving) continue;
    if (!slot->rows.empty()) {
      const Revision to = slot->job->revision();
      slot->job->seal(slot->rows);
      for (const Row& row : slot->rows) written += row.key.size() + row.value.size();
      committing_.push_back({slot, to, slot->rows.size()});
      round.batches.push_back(
          {slot->number, slot->epoch, slot->handed_over, to, std::exchange(slot->rows, {})});
      slot->handed_over = to;
    }
    if (slot->gate->wants_confirmation()) {
      round.confirms.push_back({slot->number, slot->epoch});
      slot->gate->confirmation_begun(round_ + 1);
      confirming_.push_back(slot);
    }
  }
  if (round.batches.empty() && round.confirms.empty()) return;
  growth_.add_written(written);
  round.number = ++round_;
  round_in_flight_ = true;
  to_answer_ = requests;
  const std::uint64_t generation = engine_.generation;
  engine_.commit->submit(std::move(round), [this, generation](store::RoundResult result) {
    asio::post(loop_, [this, generation, result = std::move(result)]() mutable {
      const bool current = engine_.commit && generation == engine_.generation;
      if (current) finish_round(std::move(result));
    });
  });
}

void Shard::finish_round(store::RoundResult result) {
  round_in_flight_ = false;
  bool lost = false;
  std::size_t rows = 0;
  const auto committing = std::exchange(committing_, {});
  const auto confirming = std::exchange(confirming_, {});
  const auto settle = [&](const JobRef& slot, store::Outcome outcome, auto on_durable) {
    if (outcome == store::Outcome::durable) {
      on_durable();
      touch(slot);
      return;
    }
    metrics_.commit_failed(outcome);
    lost = lost || outcome == store::Outcome::unknown;
    if (outcome == store::Outcome::fenced) {
      drop(slot, failure(Code::not_owner, "job \"" + slot->name + "\" is owned by another daemon"));
    }
  };
  for (std::size_t i = 0; i < committing.size(); ++i) {
    const auto& [slot, to, count] = committing[i];
    rows += count;
    settle(slot, result.batches[i], [&, &slot = slot, to = to] {
      slot->gate->committed(to);
      slot->job->durable(to);
    });
  }
  for (std::size_t i = 0; i < confirming.size(); ++i) {
    const JobRef& slot = confirming[i];
    settle(slot, result.confirms[i], [&] { slot->gate->confirmed(result.number); });
  }
  if (lost) {
    constexpr const char* kWhy = "a commit has an unknown outcome";
    host_.report_lost(engine_.generation, kWhy);
    return engine_lost(kWhy);
  }
  if (rows > 0) metrics_.committed(rows, result.took);
  pace_.ended(std::chrono::steady_clock::now(), result.took, to_answer_, waiting());
}

/// Sends the answers that may leave.
void Shard::release(const JobRef& slot) {
  const std::int64_t left = steady_ns();
  for (core::Reply& reply : slot->gate->take_released()) {
    const OpInfo* op = find_op(reply.op);
    const Code outcome = reply.answer ? Code::ok : reply.answer.error().code;
    tally_.answered(*op, outcome, Duration(reply.arrived_ns == 0 ? 0 : left - reply.arrived_ns));
    if (const auto refused = slot->refused.extract(reply.attachment)) {
      const JobSlot::Refused& to = refused.mapped();
      refuse({to.sink, to.channel, to.sequence, 0, {}, {}}, reply.answer.error());
      continue;
    }
    const auto it = slot->attached.find(reply.to);
    if (it == slot->attached.end() || it->second.number != reply.attachment) continue;
    const JobSlot::Attachment attachment = it->second;
    if (reply.op == Goodbye::op.code) slot->attached.erase(it);
    attachment.sink->deliver(attachment.channel, reply, slot->gate->stamp());
    if (to_flush_.empty() || to_flush_.back() != attachment.sink) {
      to_flush_.push_back(attachment.sink);
    }
  }
}

/// Keeps the job's place among the deadlines up to date.
void Shard::watch_deadline(const JobRef& slot) {
  const auto next = slot->dropped ? std::nullopt : slot->job->next_deadline();
  if (next == slot->deadline) return;
  if (slot->deadline) deadlines_.erase({*slot->deadline, slot});
  slot->deadline = next;
  if (next) deadlines_.emplace(*next, slot);
}

/// A timer that is set already stays unless it is too late: setting it anew wakes the loop.
void Shard::arm_timer() {
  std::optional<RoundPace::Time> next = pace_.until();
  if (!deadlines_.empty() && !draining_) {
    const Duration left = deadlines_.begin()->first - time_.now();
    const auto at = std::chrono::steady_clock::now() +
                    std::clamp(left, Duration::zero(), JobTime::kTurnInterval);
    next = next ? std::min(*next, at) : at;
  }
  if (!next) return;
  const RoundPace::Time at = *next;
  if (timer_set_ && timer_.expiry() <= at) return;
  timer_set_ = true;
  timer_.expires_at(at);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) timer_set_ = false;  // waking the loop is all
  });
}

// ---- what the house asks -----------------------------------------------------------------------

void Shard::drain() {
  draining_ = true;
  time_.stand_still();
}

std::size_t Shard::unfinished() const {
  std::size_t held = 0;
  for (const auto& [number, slot] : jobs_) {
    if (slot->serving) held += slot->gate->held() + slot->rows.size();
  }
  return held;
}

std::vector<JobReport> Shard::reports() {
  tally_.flush();
  std::vector<JobReport> all;
  for (const auto& [number, slot] : jobs_) {
    if (!slot->serving) continue;
    all.push_back({slot->name, slot->run, number, slot->job->revision(), slot->job->stats()});
  }
  return all;
}

void Shard::forget() {
  for (const auto& [number, slot] : jobs_) {  // a job and its connections hold each other
    slot->attached.clear();
    slot->refused.clear();
    slot->when_loaded.clear();
  }
  jobs_.clear();
  by_name_.clear();
  touched_.clear();
  deadlines_.clear();
  to_flush_.clear();
  committing_.clear();
  confirming_.clear();
  starved_.clear();
  served_.clear();
  timer_.cancel();
}

}  // namespace c10dd::daemon
