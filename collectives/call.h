// SPDX-License-Identifier: Apache-2.0
// Call: the Work behind one collective of a ProcessGroup. The issuing thread builds it, the group's
// worker ends it exactly once, anyone waits.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "client/internal/fork_guard.h"
#include "collectives/hooks.h"
#include "collectives/tensor.h"
#include "collectives/work.h"
#include "protocol/error.h"

namespace c10dd::collectives {

class Call final : public Work {
 public:
  /// To be kept by client::owned_by_this_process.
  explicit Call(client::HomeProcess home) : home_(home) {}

  CollectiveCall info;  ///< written by the issuer before the queue, then by the worker only
  Tensor output;        ///< the only tensor of in-place collectives
  Tensor input;         ///< of all_gather

  Status status() const override;
  void wait() override;
  void wait(Duration limit) override;
  Code code() const override;
  std::string error() const override;
  Duration duration() const override;
  std::uint64_t sequence() const override { return info.sequence; }

  /// Lets go of the tensors and wakes the waiters. `reason` counts unless status is done.
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
