// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_moves.h"

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

Failure moved_to(const JobSlot& slot) {
  const JobMove& move = *slot.moving;
  Failure reason = failure(Code::not_owner, "job \"{}\" was moved to the daemon at {}", slot.name,
                           move.addresses.front());
  reason.addresses = move.addresses;
  return reason;
}

}  // namespace

void JobMoves::move(JobNumber number, JobMove move) {
  const JobRef slot = table_.find(number);
  if (!slot || !slot->serving || slot->moving || slot->is_volatile) {
    return move.then(failure(Code::not_found, "job {} is not served here now", number));
  }
  slot->moving = std::move(move);
  moving_.push_back(slot);
  table_.touch(slot);
}

// From the call of move() on a job takes no request, and its deadlines stand still, so no rows or
// replies are added.
void JobMoves::hand_over() {
  std::erase_if(moving_, [this](const JobRef& slot) {
    if (slot->dropped) return true;
    const bool durable =
        slot->rows.empty() && slot->gate->stamp().revision >= slot->job->revision();
    if (!durable || slot->gate->held() > 0) return false;
    context_.shell.hand_over(slot, slot->moving->process);
    return true;
  });
}

void JobMoves::handed_over(std::uint64_t generation, const JobRef& slot, const Result<void>& done) {
  if (!context_.is_open(generation) || slot->dropped) return;
  if (done) {
    slot->moving->done = true;
    slot->refusal = moved_to(*slot);
    return dropper_.drop(slot, *slot->refusal);
  }
  if (done.error().code == Code::not_owner) {
    slot->refusal = failure(Code::not_owner, "job \"{}\" is owned by another daemon", slot->name);
    return dropper_.drop(slot, *slot->refusal);
  }
  dropper_.lose_engine(done.error().detail, false);  // it is not known who owns the job
}

void JobMoves::end(JobSlot& slot, const Failure& reason) {
  if (!slot.moving) return;
  const JobMove move = std::move(*slot.moving);
  slot.moving.reset();
  for (const auto& waiter : std::exchange(slot.when_loaded, {})) waiter.then(nullptr);
  move.then(move.done ? Result<void>() : reason);
}

}  // namespace c10dd::core
