// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/commits.h"

#include <utility>

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kRowBytesKept = 64 * 1024;  // a larger buffer for rows is freed after its use

/// Removes the rows. Keeps their memory for the next rows unless it is large.
void empty(Rows& rows) {
  if (rows.capacity() > kRowBytesKept) {
    static_cast<void>(std::exchange(rows, {}));  // an assignment would keep the memory
  } else {
    rows.clear();
  }
}

/// Returns the total size of the keys and values in a reply, in bytes.
std::size_t copied_bytes(const Reply& reply) {
  std::size_t bytes = 0;
  if (!reply) return bytes;
  if (const auto* value = std::get_if<Value>(&*reply)) return value->value.size();
  if (const auto* values = std::get_if<Values>(&*reply)) {
    for (const Bytes& value : values->values) bytes += value.size();
  } else if (const auto* read = std::get_if<ValuePage>(&*reply)) {
    for (const Blob& value : read->values) bytes += value.size();
  } else if (const auto* page = std::get_if<KeyPage>(&*reply)) {
    for (const Bytes& key : page->keys) bytes += key.size();
  } else if (const auto* changes = std::get_if<Changes>(&*reply)) {
    for (const Change& change : changes->changes) bytes += change.key.size() + change.value.size();
  }
  return bytes;
}

/// Empties effects at the end of a scope, also after an exception.
struct EffectsCleaner {
  Effects& effects;

  ~EffectsCleaner() {
    empty(effects.rows);
    effects.clear();
  }
};

}  // namespace

Submitted Commits::submit(const JobRef& slot, const AttachmentRef& attachment, const CallId& call,
                          const Request& request) {
  // A request from another loop may be late: its session may have moved to a newer connection,
  // where the client repeats the request. Therefore the late request is ignored. Otherwise its
  // reply would go to the newer connection, and the client would mistake this reply for the reply
  // to the repeated request.
  if (attachment->ended() || slot->moving) return Submitted::ignored;
  const std::optional<Failure> no_room = context_.growth.refuses(request, !slot->is_volatile);
  Allowance allowance = context_.allowance(attachment->from);
  if (no_room) allowance.no_room = &*no_room;
  const EffectsCleaner cleaner{effects_};
  effects_.rows.keep(!slot->is_volatile || planted(Planted::plain_rows_stored));
  slot->job->apply(attachment->from, call, request, context_.now(), allowance, effects_);
  perform(slot, effects_, attachment, call.sequence);
  return effects_.blocked ? Submitted::blocked : Submitted::answered;
}

void Commits::perform(const JobRef& slot, Effects& effects, const AttachmentRef& by,
                      std::uint64_t sequence) {
  context_.shell.performed(*slot, effects, by ? &by->from : nullptr, sequence);
  if (effects.rows.keeps()) slot->rows.append(effects.rows);
  const bool changed = effects.revision > slot->gate->stamp().revision;
  if (changed && context_.is_volatile(*slot)) {  // no row goes to the engine: no reply waits
    slot->gate->committed(effects.revision);
    slot->job->durable(effects.revision);
  }
  for (OutgoingReply& reply : effects.replies) {
    if (reply.attachment == nullptr && by && by->from.session == reply.to) {
      reply.attachment = by;
    }
    hold(slot, std::move(reply));
  }
  slot->changed = slot->changed || !effects.quiet;
  table_.touch_quietly(slot);
}

/// Passes a reply to the commit gate. If the reply has no attachment yet, gives it the current
/// attachment of its session.
void Commits::hold(const JobRef& slot, OutgoingReply&& reply) {
  if (reply.attachment == nullptr) {
    const auto it = slot->attached.find(reply.to);
    if (it != slot->attached.end()) reply.attachment = it->second;
  }
  slot->use.answered(copied_bytes(reply.result));
  if (planted(Planted::reads_not_gated) && reply.evidence != Evidence::own_commit) {
    reply.observed = 0;
  }
  slot->gate->hold(std::move(reply));
}

void Commits::end_turn() {
  table_.take_touched(spare_touched_);
  for (const JobRef& slot : spare_touched_) end_turn_of(slot);
  spare_touched_.clear();
}

void Commits::end_turn_of(const JobRef& slot) {
  slot->touched = false;
  slot->use = {};
  if (!slot->serving) return;
  if (std::exchange(slot->changed, false)) {
    if (context_.is_volatile(*slot)) {
      slot->job->append_reply_rows(slot->rows);
      empty(slot->rows);
    }
    const JobStats stats = slot->job->stats();
    deadlines_.watch(slot);
    table_.report_idle(*slot, stats);
    table_.count_bytes(*slot, stats);
  }
  const bool waits = !slot->rows.empty() || slot->gate->wants_confirmation();
  replies_.release(slot);
  if (waits) table_.touch_quietly(slot);  // start_batch() looks at touched jobs only
}

/// Returns how many requests cannot get their replies before a batch is committed.
std::size_t Commits::waiting() const {
  std::size_t all = 0;
  for (const JobRef& slot : table_.touched()) {
    if (slot->serving && !slot->is_volatile) all += slot->gate->held();
  }
  return all;
}

void Commits::start_batch() {
  if (batch_in_flight_ || !context_.engine || context_.engine->is_volatile) return;
  const std::size_t requests = waiting();
  if (!pace_.ready(context_.loop.now(), requests)) return;
  store::CommitBatch batch;
  std::size_t written = 0;
  for (const JobRef& slot : table_.touched()) {
    if (!slot->serving || (slot->is_volatile && !planted(Planted::plain_rows_stored))) continue;
    if (!slot->rows.empty()) {
      const Revision to = slot->job->revision();
      slot->job->append_reply_rows(slot->rows);
      written += slot->rows.bytes();
      committing_.push_back({slot, to, slot->rows.size()});
      batch.jobs.push_back(
          {slot->number, slot->epoch, slot->handed_over, to, std::exchange(slot->rows, {})});
      slot->handed_over = to;
      if (planted(Planted::ack_before_sync)) slot->gate->committed(to);
    }
    if (slot->gate->wants_confirmation()) {
      batch.confirms.push_back({slot->number, slot->epoch});
      slot->gate->confirmation_begun(batch_ + 1);
      confirming_.push_back(slot);
    }
  }
  if (batch.jobs.empty() && batch.confirms.empty()) return;
  context_.growth.add_written(written);
  batch.number = ++batch_;
  batch_in_flight_ = true;
  to_answer_ = requests;
  context_.shell.commit(std::move(batch));
}

void Commits::committed(std::uint64_t generation, const store::CommitResult& result) {
  if (context_.is_open(generation)) finish_batch(result);
}

void Commits::finish_batch(const store::CommitResult& result) {
  batch_in_flight_ = false;
  std::string lost;  // why the engine is lost
  bool rolled_back = false;
  std::size_t rows = 0;
  const auto committing = std::exchange(committing_, {});
  const auto confirming = std::exchange(confirming_, {});
  const auto settle = [&](const JobRef& slot, store::Outcome outcome, auto on_durable) {
    if (outcome == store::Outcome::durable) {
      on_durable();
      if (!planted(Planted::committed_reply_kept)) table_.touch(slot);
      return;
    }
    context_.shell.report(slot.get(), CommitFailed{outcome});
    if (outcome == store::Outcome::unknown) {
      lost = "a commit has an unknown outcome" + (result.why.empty() ? "" : ": " + result.why);
    }
    if (outcome == store::Outcome::absent) {
      lost = format("the engine does not have {}", described(*slot));
    }
    if (outcome == store::Outcome::lost) {
      rolled_back = true;
      lost = format("the engine has lost durable changes of {}, which was at revision {}",
                    described(*slot), slot->gate->stamp().revision);
    }
    if (outcome == store::Outcome::fenced && !planted(Planted::deposed_goes_on)) {
      dropper_.drop(slot,
                    failure(Code::not_owner, "job \"{}\" is owned by another daemon", slot->name));
    }
  };
  for (std::size_t i = 0; i < committing.size(); ++i) {
    const auto& [slot, to, count] = committing[i];
    rows += count;
    settle(slot, result.jobs[i], [&, &slot = slot, to = to] {
      slot->gate->committed(to);
      slot->job->durable(to);
    });
  }
  for (std::size_t i = 0; i < confirming.size(); ++i) {
    const JobRef& slot = confirming[i];
    settle(slot, result.confirms[i], [&] { slot->gate->confirmed(result.number); });
  }
  if (!lost.empty()) {  // it may lack rows of the jobs in memory, so all jobs are reloaded
    return dropper_.lose_engine(lost, rolled_back);
  }
  if (rows > 0) context_.shell.report(nullptr, BatchCommitted{rows, result.took});
  pace_.ended(context_.loop.now(), result.took, to_answer_, waiting());
}

void Commits::engine_lost() {
  batch_in_flight_ = false;
  committing_.clear();
  confirming_.clear();
  pace_ = {};
}

void Commits::forget() {
  committing_.clear();
  confirming_.clear();
}

}  // namespace c10dd::core
