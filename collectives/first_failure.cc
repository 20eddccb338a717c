// SPDX-License-Identifier: Apache-2.0
// Chooses between the failure that the backend has seen and the reason that an abort brings.
#include "collectives/first_failure.h"

#include <utility>

#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

/// Returns `seen` with code aborted, and with "not yet confirmed" at the end of its text.
Failure unconfirmed(const Operation& operation, Failure seen) {
  seen.code = Code::aborted;
  if (!seen.missing.empty()) {
    seen.detail = format("{} {} failed: {}: {}", name_of(operation.collective), operation.sequence,
                         collectives::described(seen.missing), seen.missing.front().doing);
  }
  seen.detail += ", not yet confirmed by the daemon";
  return seen;
}

}  // namespace

Failure FirstFailure::get() const {
  const std::lock_guard lock(mutex_);
  C10DD_ASSERT(reason_.has_value());
  return *reason_;
}

bool FirstFailure::abort(Failure reason, bool says_all) {
  {
    const std::lock_guard lock(mutex_);
    if (reason_) return false;
    explained_ = says_all;
    by_abort_ = true;
    reason.detail = aborted_text(world_, reason.detail);
    set_locked(std::move(reason));
  }
  changed_.notify_all();
  return true;
}

Failure FirstFailure::settle(const CollectiveCall& call, Failure seen) {
  return explained(call, first_reason(call, std::move(seen)));
}

// Returns the reason of abort() if abort() came, unconfirmed() if the wait for it timed out, and
// otherwise `seen`.
Failure FirstFailure::first_reason(const CollectiveCall& call, Failure seen) {
  std::unique_lock lock(mutex_);
  const bool lost = seen.code == Code::unavailable || seen.code == Code::aborted;
  const Duration patience = context_.reason_patience;
  if (lost && patience > Duration{0} &&
      !changed_.wait_for(lock, patience, [this] { return reason_.has_value(); })) {
    seen = unconfirmed(call.operation, std::move(seen));
  }
  if (!reason_) set_locked(std::move(seen));
  return *reason_;
}

// Adds to `why` what the daemon knows of the cause, records the result and returns it. Changes
// nothing if the reason says all already. Asks the daemon without the lock, because the reply may
// take a moment.
Failure FirstFailure::explained(const CollectiveCall& call, Failure why) {
  bool by_abort = false;
  {
    const std::lock_guard lock(mutex_);
    if (explained_) return *reason_;
    explained_ = true;
    by_abort = by_abort_;
  }
  const std::size_t known = why.detail.size();
  Failure told = why;
  const bool is_other = context_.explain && context_.explain(call, told);
  // The end of a generation is the reason, even if the ranks had lost each other before.
  if (!is_other || !by_abort) why = std::move(told);
  if (why.code == Code::timed_out && why.detail.size() == known && !why.missing.empty()) {
    why.detail += "; check the logs or a stack trace of these ranks";
  }
  if (!by_abort && !is_other) why.detail += ranks_in_the_job(why.missing, world_);
  const std::lock_guard lock(mutex_);
  reason_ = why;
  return why;
}

void FirstFailure::set_locked(Failure reason) {
  reason_ = std::move(reason);
  exists_.store(true, std::memory_order_release);
}

}  // namespace c10dd::collectives
