// SPDX-License-Identifier: Apache-2.0
// Hook: observes every operation of a process group: when it is enqueued, started, begun and
// finished.
// Standard library only.
#pragma once

#include <chrono>

#include <c10dd/bootstrap.h>
#include <c10dd/codes.h>
#include <c10dd/operation.h>
#include <c10dd/types.h>

namespace c10dd {

/// One operation of a group, and the times at which it advanced. A time point is zero until its
/// event has happened.
struct CollectiveCall {
  using Clock = std::chrono::steady_clock;

  Operation operation;           ///< its tensors may be used until Hook::finished() has returned
  Clock::time_point enqueued{};  ///< when the caller issued the operation
  Clock::time_point started{};   ///< when the backend got it; zero if the operation was abandoned
  /// When the backend really began: on nccl, when the device got to it, behind what the streams of
  /// its tensors had; on all others equal to `started`. Zero if it has failed before.
  Clock::time_point begun{};
  Clock::time_point finished{};  ///< when the backend ended
  Code outcome = Code::ok;       ///< ok or an error code; valid after `finished` is set
};

/// Observes the operations of one group. Derive from Hook, and pass one hook per group in
/// GroupOptions::hooks. For each operation, the group calls enqueued() once, then started() and
/// begun() at most once each, and then finished() exactly once, however the operation ends. A
/// method must not throw, block or use the group. The methods are called by the threads that issue,
/// run and end operations, possibly by several at the same time.
class Hook {
 public:
  virtual ~Hook() = default;

  /// Called once, after the group was opened and before the first operation.
  virtual void opened(const World&) noexcept {}

  /// Called when an operation has got its sequence, in the order of the sequences.
  virtual void enqueued(const CollectiveCall&) noexcept {}

  /// Called before the backend starts the operation; except for sends and receives, in the order of
  /// the sequences. Not called for an operation that is abandoned.
  virtual void started(const CollectiveCall&) noexcept {}

  /// Called when the backend has begun, after started() and before finished(). See
  /// CollectiveCall::begun.
  virtual void begun(const CollectiveCall&) noexcept {}

  /// Called when the operation has ended, before any wait() for it returns.
  virtual void finished(const CollectiveCall&) noexcept {}
};

}  // namespace c10dd
