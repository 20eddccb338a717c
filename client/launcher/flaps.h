// SPDX-License-Identifier: Apache-2.0
// Flaps: losses of a host soon after it has joined. Each one restarts the workers of all nodes, so
// a host that flaps is held off, longer each time. The counts are in the job's store.
#pragma once

#include <cstdint>
#include <string>

#include "client/job_store.h"
#include "protocol/types.h"

namespace c10dd::run {

/// A loss is a flap if the generation was younger.
inline constexpr Duration kFlapAge = std::chrono::minutes(1);

/// Returns how long a host must wait before it joins again: 10 s, twice as long for each further
/// flap, at most 5 minutes.
Duration flap_delay(std::uint32_t flaps);

/// Returns the flaps of a host. They are forgotten 15 minutes after the last one.
std::uint32_t flaps_of(JobStore& store, const std::string& host);

/// Counts that a host was lost in a generation. All agents of the others may call it: the first one
/// counts. Returns the flaps of the host.
std::uint32_t count_flap(JobStore& store, const std::string& host, std::uint64_t generation);

}  // namespace c10dd::run
