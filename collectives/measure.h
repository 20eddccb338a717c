// SPDX-License-Identifier: Apache-2.0
// A hook that measures each collective, and counts it in a CollectiveSeries with the time that it
// waited for its turn, the time that the backend took, and the number of bytes. Bytes are counted
// as nccl-tests does (for all_gather, the bytes of the output), so that dashboards can be compared
// with the tables of nccl-tests. Standard library only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "client/client.h"
#include "collectives/hooks.h"
#include "protocol/types.h"

namespace c10dd {

/// Returns what counts the collectives of one kind. Called by the threads that run operations, once
/// for each kind of a group.
class CollectiveRecorder {
 public:
  virtual ~CollectiveRecorder() = default;
  virtual std::shared_ptr<CollectiveSeries> series(std::string_view process_group,
                                                   std::string_view collective,
                                                   std::string_view backend) = 0;
};

/// Returns how many bytes each link carries, rounded to whole bytes: the payload times
/// OperationInfo::bus_factor.
std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size);

/// Returns a hook for one group. The hook labels samples with the group's kind and with `backend`,
/// or the one of these backends that the operation's device has. It gives no sample for an
/// operation that was abandoned.
std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string backend);

}  // namespace c10dd
