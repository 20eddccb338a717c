// SPDX-License-Identifier: Apache-2.0
// The hook that measures every collective and hands one sample of each to a recorder. Bytes are
// counted as nccl-tests does (all_gather: of all ranks), so that dashboards agree with its tables;
// duration is the time inside the backend. Standard library only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/client.h"
#include "collectives/hooks.h"
#include "protocol/types.h"

namespace c10dd {

/// Receives samples on the worker threads of the groups, in their order per group.
class CollectiveRecorder {
 public:
  virtual ~CollectiveRecorder() = default;
  virtual void record(const CollectiveSample& sample) noexcept = 0;
};

/// 2(n-1)/n for all_reduce, (n-1)/n for all_gather, 1 for broadcast; rounded to whole bytes.
std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size);

/// A hook for one group of this kind, backend and size.
std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string group_kind, std::string backend, Rank size);

}  // namespace c10dd
