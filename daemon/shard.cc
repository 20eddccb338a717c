// SPDX-License-Identifier: Apache-2.0
// The turn: requests in, effects out, one round at the engine at a time, answers when durable.
// Opening, loading and losing jobs is in shard_jobs.cc.
#include "daemon/shard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>

namespace c10dd::daemon {
namespace {

// Job time moves at most this far in one turn, so that a paused process expires nobody.
constexpr Duration kTurnMax = std::chrono::milliseconds(250);
// While deadlines are pending the loop turns at least this often, so that job time keeps up.
constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

std::int64_t steady_ns() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Shard::Shard(asio::io_context& loop, Metrics& metrics, std::string engine_url,
             store::Durability durability)
    : loop_(loop),
      metrics_(metrics),
      engine_url_(std::move(engine_url)),
      durability_(durability),
      turn_ended_(std::chrono::steady_clock::now()),
      timer_(loop),
      reopen_timer_(loop) {}

Shard::~Shard() = default;

TimePoint Shard::now() const {
  const Duration passed = std::chrono::steady_clock::now() - turn_ended_;
  return job_time_ + std::min(passed, kTurnMax);
}

void Shard::submit(const JobRef& slot, const core::Origin& from, const core::CallId& call,
                   const Request& request) {
  if (slot->dropped) return;  // its connections are being told
  perform(slot, slot->job->apply(from, call, request, now()));
}

void Shard::detach(const JobRef& slot, const SessionId& session, const AnswerSink* sink) {
  const auto it = slot->attached.find(session);
  if (slot->dropped || it == slot->attached.end() || it->second.sink.get() != sink) return;
  slot->attached.erase(it);
  perform(slot, slot->job->disconnect(session, now()));
}

void Shard::perform(const JobRef& slot, core::Effects effects) {
  for (Row& row : effects.rows) slot->rows.push_back(std::move(row));
  for (core::Reply& reply : effects.replies) slot->gate->hold(std::move(reply));
  for (const core::Event& event : effects.events) {
    metrics_.event(slot->name, event);
    if (const auto* timed_out = std::get_if<core::MeetingTimedOut>(&event)) {
      spdlog::warn("event=meeting_timed_out job={} detail=\"{}\"", slot->name, timed_out->detail);
    }
  }
  if (volatile_) {
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
  job_time_ = now();
  turn_ended_ = std::chrono::steady_clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= job_time_) {
    const JobRef slot = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    slot->deadline.reset();
    if (!slot->dropped) perform(slot, slot->job->tick(job_time_));
  }
  start_round();
  for (const JobRef& slot : std::exchange(touched_, {})) {
    slot->touched = false;
    watch_deadline(slot);
    const bool waits = !slot->rows.empty() || slot->gate->wants_confirmation();
    release(slot);
    if (waits && !slot->dropped) touch(slot);  // for the next round
  }
  for (const std::shared_ptr<AnswerSink>& sink : to_flush_) sink->flush();
  to_flush_.clear();
  arm_timer();
}

/// Hands what has gathered to the engine, unless a round is under way.
void Shard::start_round() {
  if (round_in_flight_ || !commit_ || volatile_) return;
  store::Round round;
  for (const JobRef& slot : touched_) {
    if (slot->dropped) continue;
    if (!slot->rows.empty()) {
      const Revision to = slot->job->revision();
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
  round.number = ++round_;
  round_in_flight_ = true;
  commit_->submit(std::move(round), [this, g = generation_](store::RoundResult result) {
    asio::post(loop_, [this, g, result = std::move(result)]() mutable {
      if (g == generation_) finish_round(std::move(result));
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
  if (lost) return lose_engine("a commit has an unknown outcome");
  if (rows > 0) metrics_.committed(rows, result.took);
}

/// Sends the answers that may leave.
void Shard::release(const JobRef& slot) {
  if (slot->dropped) return;
  const std::int64_t left = steady_ns();
  for (core::Reply& reply : slot->gate->take_released()) {
    const OpInfo* op = find_op(reply.op);
    const Code outcome = reply.answer ? Code::ok : reply.answer.error().code;
    metrics_.answered(*op, outcome, Duration(reply.arrived_ns == 0 ? 0 : left - reply.arrived_ns));
    const auto it = slot->attached.find(reply.to);
    if (it == slot->attached.end()) continue;
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

void Shard::arm_timer() {
  if (deadlines_.empty()) {
    timer_.cancel();
    return;
  }
  const Duration left = deadlines_.begin()->first - job_time_;
  timer_.expires_after(std::clamp(left, Duration::zero(), kTurnInterval));
  timer_.async_wait([](const boost::system::error_code&) {});  // waking the loop is all
}

std::size_t Shard::unfinished() const {
  std::size_t held = 0;
  for (const auto& [number, slot] : jobs_) {
    if (slot->serving) held += slot->gate->held() + slot->rows.size();
  }
  return held;
}

void Shard::publish() {
  std::map<std::string, core::JobStats> by_name;  // the runs of a job add up
  for (const auto& [number, slot] : jobs_) {
    if (!slot->serving) continue;
    const core::JobStats stats = slot->job->stats();
    core::JobStats& sum = by_name[slot->name];
    sum.keys += stats.keys;
    sum.bytes += stats.bytes;
    sum.waiters += stats.waiters;
    sum.meetings_pending += stats.meetings_pending;
    sum.sessions += stats.sessions;
  }
  for (const auto& [name, stats] : by_name) metrics_.job_stats(name, stats);
  metrics_.jobs(jobs_.size());
}

}  // namespace c10dd::daemon
