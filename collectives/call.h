// SPDX-License-Identifier: Apache-2.0
// Call: the Work of one collective of a ProcessGroup.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "client/internal/fork_guard.h"
#include "collectives/hooks.h"
#include "collectives/operation.h"
#include "collectives/work.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// One collective: its arguments, tensors and outcome. The thread that issues the collective makes
/// the Call, the group's worker thread ends it exactly once, and any thread may wait for it.
class Call final : public Work {
 public:
  /// The caller must pass the new Call to client::owned_by_this_process(), so that a forked process
  /// does not destroy the Call.
  explicit Call(client::HomeProcess home) : home_(home) {}

  CollectiveCall info;  ///< written only by the issuing thread, then only by the worker thread
  Operation operation;  ///< its tensors are released when the collective ends

  Status status() const override;
  void wait() override;
  void wait(Duration limit) override;
  Code code() const override;
  std::string error() const override;
  Duration duration() const override;
  std::uint64_t sequence() const override { return info.sequence; }

  /// Releases the tensors and wakes the waiters. `reason` is ignored if the status is done.
  void end(Status status, const Failure& reason);

 private:
  void throw_unless_done() const;
  void require_home() const;

  const client::HomeProcess home_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  Status status_ = Status::pending;
  Failure failure_ = failure(Code::ok, "");
};

}  // namespace c10dd::collectives
