// SPDX-License-Identifier: Apache-2.0
// FirstFailure: the first reason why a process group has failed. All later operations of the group
// fail with that reason.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/abortable_group.h"
#include "collectives/hooks.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Keeps the first failure of one group. The World must outlive it. Thread-safe.
class FirstFailure {
 public:
  FirstFailure(const World& world, GroupContext context)
      : world_(world), context_(std::move(context)) {}

  /// Returns whether the group has failed.
  bool exists() const { return exists_.load(std::memory_order_acquire); }

  /// Returns the failure. exists() must be true.
  Failure get() const;

  /// Records that the group was aborted. Returns false, and does nothing, if the group has already
  /// failed. `says_all`: nothing is added to the reason, because the owner of the group has given
  /// it, or because it is the daemon's diagnosis.
  bool abort(Failure reason, bool says_all);

  /// Records that the backend has failed an operation with `seen`, and returns the failure of that
  /// operation. If a peer was lost, first waits for abort(), which may bring the daemon's reason;
  /// see GroupContext::reason_patience. Then adds what the daemon knows of the cause.
  Failure settle(const CollectiveCall& call, Failure seen);

 private:
  Failure first_reason(const CollectiveCall& call, Failure seen);
  Failure explained(const CollectiveCall& call, Failure why);
  void set_locked(Failure reason);

  const World& world_;
  const GroupContext context_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> reason_;  // never reset
  bool by_abort_ = false;          // abort() has set the reason
  bool explained_ = false;         // nothing more is added to the reason
  std::atomic<bool> exists_ = false;
};

}  // namespace c10dd::collectives
