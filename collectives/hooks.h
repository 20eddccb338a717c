// SPDX-License-Identifier: Apache-2.0
// Hooks see every collective of a group before and after the backend runs it, whichever backend
// that is. They run on the group's worker thread; the caller's thread only takes a time stamp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <c10dd/codes.h>
#include <c10dd/tensor.h>
#include <c10dd/types.h>

namespace c10dd {

enum class Collective : std::uint8_t { all_reduce, broadcast, all_gather, barrier };

constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "all_gather", "barrier"};
  return kNames[static_cast<std::size_t>(collective)];
}

/// One collective as its group sees it. Times are zero until they are known.
struct CollectiveCall {
  using Clock = std::chrono::steady_clock;

  std::uint64_t sequence = 0;
  Collective collective = Collective::barrier;
  DType dtype = DType::float32;
  ReduceOp reduce = ReduceOp::sum;  ///< of all_reduce
  Rank root = 0;                    ///< of broadcast
  std::size_t count = 0;            ///< elements per rank
  std::size_t bytes = 0;            ///< payload as nccl-tests counts it
  Duration timeout{0};              ///< from `started`
  Clock::time_point enqueued{};
  Clock::time_point started{};
  Clock::time_point finished{};
  Code outcome = Code::ok;  ///< final once finished is set
};

/// To observe collectives: derive, pass in GroupOptions::hooks. Must not throw and must not issue
/// collectives on the same group.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before(const CollectiveCall& call) noexcept = 0;
  virtual void after(const CollectiveCall& call) noexcept = 0;  ///< before anyone's wait() returns
};

}  // namespace c10dd
