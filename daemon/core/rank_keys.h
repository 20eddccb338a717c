// SPDX-License-Identifier: Apache-2.0
// Knows by which keys the ranks of PyTorch's process groups tell their addresses to each other. A
// store request does not name its rank; these keys do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace c10dd::core {

/// Returns the rank that sets this key, if the key is a rank's key:
///   gloo         ...//DEVICE/RANK, and in PyTorch 1.13 ...//rank_RANK, which has the host name
///   NCCL         .../cuda//N, which rank 0 sets for communicator N
///   torchelastic .../torchelastic/role_info/RANK, which the agent of a node sets
std::optional<std::uint32_t> rank_of_key(std::string_view key);

}  // namespace c10dd::core
