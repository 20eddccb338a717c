// SPDX-License-Identifier: Apache-2.0
// Hook: observes every collective of a process group, before and after its backend runs it.
// Standard library only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <c10dd/codes.h>
#include <c10dd/operation.h>
#include <c10dd/types.h>

namespace c10dd {

/// Describes one collective of a group. A time point is zero until its event has happened.
struct CollectiveCall {
  using Clock = std::chrono::steady_clock;

  std::uint64_t sequence = 0;  ///< position among the collectives of the group, from 0
  Collective collective = Collective::barrier;
  DType dtype = DType::float32;     ///< type of each element; unused if there is no tensor
  ReduceOp reduce = ReduceOp::sum;  ///< only if OperationInfo::reduces
  Rank root = 0;                    ///< only if OperationInfo::root is not none
  std::size_t count = 0;            ///< number of elements of Operation::common()
  std::size_t bytes = 0;            ///< Operation::payload()
  Duration timeout{0};              ///< time limit, counted from `started`
  Clock::time_point enqueued{};     ///< when the caller issued the collective
  Clock::time_point started{};      ///< when the worker thread started the collective
  Clock::time_point finished{};     ///< when the backend returned
  Code outcome = Code::ok;          ///< ok or an error code; valid after `finished` is set
};

/// Observes the collectives of one group: derive from Hook and pass the hook in
/// GroupOptions::hooks. Both methods are called on the group's worker thread, in the order of the
/// collectives. The group runs no collective while a method runs. A method must not throw and must
/// not issue collectives on the same group. For abandoned work, neither method is called.
class Hook {
 public:
  virtual ~Hook() = default;

  /// Called before the backend runs the collective. `finished` and `outcome` are not set yet.
  virtual void before(const CollectiveCall& call) noexcept = 0;

  /// Called when the collective has ended, before any wait() for it returns.
  virtual void after(const CollectiveCall& call) noexcept = 0;
};

}  // namespace c10dd
