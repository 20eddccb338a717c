// SPDX-License-Identifier: Apache-2.0
// A hook that measures each collective and passes one sample to a CollectiveRecorder. A sample has
// the time that the backend took, and the number of bytes. Bytes are counted as nccl-tests does
// (for all_gather, the bytes of the output), so that dashboards can be compared with the tables of
// nccl-tests. Standard library only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/client.h"
#include "collectives/hooks.h"
#include "protocol/types.h"

namespace c10dd {

/// Receives the samples. record() is called by the threads that run operations.
class CollectiveRecorder {
 public:
  virtual ~CollectiveRecorder() = default;
  virtual void record(const CollectiveSample& sample) noexcept = 0;
};

/// Returns how many bytes each link carries, rounded to whole bytes: the payload times
/// OperationInfo::bus_factor.
std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size);

/// Returns a hook for one group. The hook labels samples with the group's kind and with `backend`.
/// It gives no sample for an operation that was abandoned.
std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string backend);

}  // namespace c10dd
