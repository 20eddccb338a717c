// SPDX-License-Identifier: Apache-2.0
// The turn: requests in, effects out, one round at the engine at a time, answers when durable.
#include "tests/sim/daemon.h"

#include <algorithm>

#include "protocol/fields.h"
#include "tests/sim/group_log.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

constexpr Duration kTurnMax = std::chrono::milliseconds(250);
constexpr Duration kTurnInterval = std::chrono::milliseconds(200);

/// Changes a batch on its way to the engine, if that is planted.
void spoil(std::vector<Row>& rows) {
  const auto lose = [&](auto which) { std::erase_if(rows, which); };
  if (planted(Plant::reply_row_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::put && row.key[0] == 'r'; });
  } else if (planted(Plant::effect_row_lost)) {
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const Row& row) {
      return row.kind == Row::Kind::put && row.key[0] == 'k';
    });
    if (rows.size() > 4 && last != rows.rend()) rows.erase(std::next(last).base());
  } else if (planted(Plant::erase_rows_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::erase && row.key[0] == 'k'; });
  } else if (planted(Plant::claim_rows_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::put && row.key[0] == 'c'; });
  } else if (planted(Plant::list_row_lost)) {
    lose([](const Row& row) { return row.key[0] == 'l'; });
  } else if (planted(Plant::batch_reversed)) {
    std::reverse(rows.begin(), rows.end());
  }
}

/// Changes an answer on its way out, if that is planted.
void spoil(core::Reply& reply) {
  if (planted(Plant::reads_not_gated) && reply.kind != OpKind::write) reply.observed = 0;
  auto* changes = reply.answer ? std::get_if<Changes>(&*reply.answer) : nullptr;
  if (changes == nullptr || changes->changes.size() < 2) return;
  if (planted(Plant::watch_event_lost)) changes->changes.erase(changes->changes.begin());
  if (planted(Plant::watch_event_twice)) changes->changes.push_back(changes->changes.back());
}

}  // namespace

Daemon::Daemon(World& world, const Swarm& swarm, Disk& disk, Records& records, DriftingClock clock,
               std::uint64_t number)
    : Process(world, clock), swarm_(swarm), disk_(disk), records_(records), number_(number) {
  turn_ended_ = local_now();
}

bool Daemon::time_stands_still() const {
  return draining_ && !planted(Plant::time_passes_in_drain);
}

TimePoint Daemon::job_now() const {
  if (time_stands_still()) return job_time_;
  return job_time_ + std::min<Duration>(local_now() - turn_ended_, kTurnMax);
}

void Daemon::submit(const SlotRef& slot, const core::Origin& from, const core::CallId& call,
                    const Request& request) {
  if (slot->dropped) return;
  perform(slot, slot->job->apply(from, call, request, job_now()), &from, call.sequence);
}

void Daemon::detach(const SlotRef& slot, const SessionId& session, const Connection* connection) {
  const auto it = slot->attached.find(session);
  if (slot->dropped || it == slot->attached.end() || it->second.connection.get() != connection) {
    return;
  }
  slot->attached.erase(it);
  if (!draining_) records_.sessions[session].is_here(world_.now(), false);
  slot->signs[session].closed = job_now();
  if (planted(Plant::disconnect_not_told)) return;
  perform(slot, slot->job->disconnect(session, job_now()));
}

void Daemon::perform(const SlotRef& slot, core::Effects effects, const core::Origin* from,
                     std::uint64_t sequence) {
  if (!effects.rows.empty()) {
    Step step;
    step.revision = effects.revision;
    if (from != nullptr) step.client = records_.sessions[from->session].client;
    if (from != nullptr) step.session = from->session;
    step.sequence = sequence;
    step.rows = effects.rows;
    step.keeps_answer = std::ranges::any_of(effects.replies, [&](const core::Reply& reply) {
      return reply.kind == OpKind::write && reply.to == step.session &&
             reply.sequence == sequence && find_op(reply.op)->dedup == Dedup::reply;
    });
    step.at = world_.now();
    step.applied = world_.next_order();
    note_losses(slot, step);
    records_.did(slot->number, slot->epoch, std::move(step));
    world_.note("step", slot->number, effects.revision);
  }
  for (Row& row : effects.rows) slot->rows.push_back(std::move(row));
  for (core::Reply& reply : effects.replies) {
    spoil(reply);
    const auto to = slot->attached.find(reply.to);
    if (to != slot->attached.end()) reply.attachment = to->second.number;
    slot->gate->hold(std::move(reply));
  }
  touch(slot);
}

/// Whom the job has given up in this step, and what was heard of them.
void Daemon::note_losses(const SlotRef& slot, const Step& step) {
  const TimePoint now = job_now();
  for (const Row& row : step.rows) {
    if (row.kind != Row::Kind::put || row.key[0] != 'm') continue;
    const auto member = wire::decode<core::GroupMember>(row.value);
    if (!member || member->state != core::GroupMember::State::lost) continue;
    Loss loss;
    loss.job = slot->name;
    loss.session = member_of(row);
    loss.at = step.at;
    loss.served = now - slot->served_since;
    loss.ending = member->ending;
    if (const auto it = slot->signs.find(loss.session); it != slot->signs.end()) {
      loss.silent = now - it->second.frame;
      if (it->second.closed) loss.away = now - *it->second.closed;
    }
    records_.losses.push_back(std::move(loss));
  }
}

void Daemon::touch(const SlotRef& slot) {
  if (std::exchange(slot->touched, true)) return;
  touched_.push_back(slot);
}

void Daemon::end_turn() {
  job_time_ = job_now();
  turn_ended_ = local_now();
  const auto jobs = jobs_;
  for (const auto& [number, slot] : jobs) {
    if (!slot->serving || slot->dropped) continue;
    const auto deadline = slot->job->next_deadline();
    if (deadline && *deadline <= job_time_) perform(slot, slot->job->tick(job_time_));
  }
  start_round();
  for (const SlotRef& slot : std::exchange(touched_, {})) {
    slot->touched = false;
    if (!slot->gate) continue;
    const bool waits = !slot->rows.empty() || slot->gate->wants_confirmation();
    release(slot);
    if (waits && !slot->dropped) touch(slot);
  }
  std::optional<TimePoint> next;
  for (const auto& [number, slot] : jobs_) {
    if (!slot->serving || slot->dropped) continue;
    const auto deadline = slot->job->next_deadline();
    if (deadline) next = next ? std::min(*next, *deadline) : *deadline;
  }
  if (!next || time_stands_still()) return;
  const Duration left = std::clamp<Duration>(*next - job_time_, Duration::zero(), kTurnInterval);
  wake_at_local(local_now() + left);
}

void Daemon::start_round() {
  if (round_in_flight_ || !queue_) return;
  store::Round round;
  for (const SlotRef& slot : touched_) {
    if (slot->dropped || !slot->serving) continue;
    if (!slot->rows.empty()) {
      const Revision to = slot->job->revision();
      const std::size_t made = slot->rows.size();
      slot->job->seal(slot->rows);
      records_.sealed(slot->number, slot->epoch, std::span(slot->rows).subspan(made));
      committing_.push_back({slot, to});
      spoil(slot->rows);
      round.batches.push_back(
          {slot->number, slot->epoch, slot->handed_over, to, std::exchange(slot->rows, {})});
      slot->handed_over = to;
      if (planted(Plant::ack_before_sync)) slot->gate->committed(to);
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
  queue_->submit(std::move(round),
                 [this, self = shared_from_this(), g = generation_](store::RoundResult result) {
                   post([this, g, result = std::move(result)]() mutable {
                     if (g == generation_) finish_round(std::move(result));
                   });
                 });
}

void Daemon::finish_round(store::RoundResult result) {
  round_in_flight_ = false;
  bool lost = false;
  const auto committing = std::exchange(committing_, {});
  const auto confirming = std::exchange(confirming_, {});
  const auto settle = [&](const SlotRef& slot, store::Outcome outcome, auto on_durable) {
    if (outcome == store::Outcome::unknown && planted(Plant::error_is_success)) {
      outcome = store::Outcome::durable;
    }
    if (outcome == store::Outcome::unknown && planted(Plant::error_is_failure)) {
      on_durable();
      refuse_held(slot);
    }
    if (outcome == store::Outcome::durable) {
      on_durable();
      touch(slot);
      return;
    }
    lost = lost || outcome == store::Outcome::unknown;
    if (outcome == store::Outcome::fenced) {
      drop(slot, failure(Code::not_owner, "job \"" + slot->name + "\" is owned by another daemon"));
    }
  };
  for (std::size_t i = 0; i < committing.size(); ++i) {
    const auto& [slot, to] = committing[i];
    settle(slot, result.batches[i], [&, &slot = slot, to = to] {
      slot->gate->committed(to);
      slot->job->durable(to);
    });
  }
  for (std::size_t i = 0; i < confirming.size(); ++i) {
    const SlotRef& slot = confirming[i];
    settle(slot, result.confirms[i], [&] { slot->gate->confirmed(result.number); });
  }
  if (lost) lose_engine("a commit has an unknown outcome");
}

/// The planted daemon that says "refused" of what may have been applied.
void Daemon::refuse_held(const SlotRef& slot) {
  for (core::Reply& reply : slot->gate->take_released()) {
    const auto it = slot->attached.find(reply.to);
    if (it == slot->attached.end() || reply.sequence == 0) continue;
    reply.answer = failure(Code::out_of_range, "the engine failed");
    deliver(it->second, reply, Stamp{});
  }
}

void Daemon::release(const SlotRef& slot) {
  if (slot->dropped) return;
  for (core::Reply& reply : slot->gate->take_released()) {
    if (const auto refused = slot->refused.extract(reply.attachment)) {
      const Slot::Refused& to = refused.mapped();
      refuse(to.connection, to.channel, to.sequence, reply.answer.error());
      continue;
    }
    auto it = slot->attached.find(reply.to);
    if (it == slot->attached.end()) continue;
    const Slot::Attachment attachment = it->second;
    // An answer leaves where its request came from: on a newer connection the session asks again,
    // and would take this for the answer to that.
    if (attachment.number != reply.attachment && !planted(Plant::answers_follow_session)) continue;
    if (reply.op == Goodbye::op.code) {
      slot->attached.erase(it);
      records_.sessions[reply.to].is_here(world_.now(), false);
    }
    Stamp stamp = slot->gate->stamp();
    if (planted(Plant::stamp_too_new)) stamp.revision = slot->job->revision();
    deliver(attachment, reply, stamp);
  }
}

std::string Daemon::unsettled() const {
  std::string text;
  if (!queue_) text += "engine not open; ";
  if (round_in_flight_) text += "round in flight; ";
  for (const auto& [number, slot] : jobs_) {
    if (!slot->serving) text += slot->name + " is loading; ";
    if (!slot->serving) continue;
    if (!slot->rows.empty()) text += slot->name + " has rows; ";
    if (slot->gate->held() > 0) text += slot->name + " holds answers; ";
  }
  return text;
}

const core::Job* Daemon::job(const std::string& name) const {
  const auto it = by_name_.find({name, ""});
  return it == by_name_.end() || !it->second->serving ? nullptr : it->second->job.get();
}

}  // namespace c10dd::sim
