// SPDX-License-Identifier: Apache-2.0
// Knows by which keys the ranks of PyTorch's process groups tell their addresses to each other. A
// store request does not name its rank; these keys do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace c10dd::core {

/// Returns the rank that sets this key, if the key is a rank's key:
///   gloo         ...//DEVICE/RANK; in PyTorch 1.13 .../default_pg/GROUP/DEVICE/RANK, and before it
///                .../rank_RANK, which has the host name; of RPC .../rpc_prefix_GROUP/DEVICE/RANK
///   NCCL         .../cuda//N, which rank 0 sets for communicator N
///   torchelastic .../torchelastic/role_info/RANK, and in PyTorch 1.13
///   .../torchelastic/role_infoRANK,
///                which the agent of a node sets
std::optional<std::uint32_t> rank_of_key(std::string_view key);

/// Returns the rank of the job that sets this key. Returns nothing for a key of a node, or of a
/// smaller group, which numbers its ranks anew. A key without the name of a group counts as one of
/// the group of all ranks, unless it is only called rank_RANK.
std::optional<std::uint32_t> job_rank_of_key(std::string_view key);

/// Returns what the keys of all ranks of one process group begin with.
std::string_view group_of_rank_key(std::string_view key);

/// A key by which torchrun's agents tell each other how many workers they start.
struct AgentKey {
  enum class Kind : std::uint8_t {
    size,      ///< role_info of a node: the size of the node
    finished,  ///< role_infoNODE.FIN in PyTorch 1.13: the node has read the sizes of all nodes
    total,     ///< assigned_ranks of a node in later versions: the size of all nodes
  };

  Kind kind = Kind::size;
  std::uint32_t node = 0;
  std::string_view round;  ///< the part before torchelastic/, which all keys of a round have
};

/// Returns what a key of torchrun's agents tells; nothing for any other key.
std::optional<AgentKey> agent_key(std::string_view key);

}  // namespace c10dd::core
