// SPDX-License-Identifier: Apache-2.0
// Implements the end of a collective: stores the outcome and wakes the waiters.
#include "collectives/call.h"

#include "client/internal/throw_failure.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {

void Call::require_home() const { home_.require("work", "open another process group"); }

Work::Status Call::status() const {
  require_home();
  const std::lock_guard lock(mutex_);
  return status_;
}

void Call::wait() {
  require_home();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return status_ != Status::pending; });
  throw_unless_done();
}

void Call::wait(Duration limit) {
  require_home();
  std::unique_lock lock(mutex_);
  if (!ended_.wait_for(lock, limit, [&] { return status_ != Status::pending; })) {
    throw TimedOut(
        format("waited {} for {} {}: it is still running or queued, its own time-out is "
               "{} from its start",
               human(limit), name_of(info.collective), info.sequence, human(info.timeout)),
        {});
  }
  throw_unless_done();
}

Code Call::code() const {
  require_home();
  const std::lock_guard lock(mutex_);
  return failure_.code;
}

std::string Call::error() const {
  require_home();
  const std::lock_guard lock(mutex_);
  return failure_.detail;
}

Duration Call::duration() const {
  require_home();
  const std::lock_guard lock(mutex_);
  if (status_ == Status::pending || status_ == Status::abandoned) return Duration{0};
  return info.finished - info.started;
}

void Call::end(Status status, const Failure& reason) {
  // Releases the tensors before any wait() returns, so that a Work that is kept after wait() does
  // not keep their memory alive.
  operation.output = {};
  operation.input = {};
  {
    const std::lock_guard lock(mutex_);
    C10DD_ASSERT(status_ == Status::pending && status != Status::pending);
    status_ = status;
    if (status != Status::done) failure_ = reason;
  }
  ended_.notify_all();
}

void Call::throw_unless_done() const {
  if (status_ != Status::done) client::throw_failure(failure_);
}

}  // namespace c10dd::collectives
