// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group tell each other before they open it with NCCL, and the checks of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/backend.h"
#include "collectives/nccl/cuda_driver.h"
#include "collectives/nccl/library.h"

namespace c10dd::collectives::nccl {

/// NCCL and the GPU of this rank.
struct Place {
  const Library* library = nullptr;
  const CudaDevice* device = nullptr;
};

/// Chooses the GPU: the one of the options; else the only one; else the one whose number is the
/// local rank that the launcher has given; else the rank in the job modulo the number of GPUs.
/// Fails with one sentence if there is no NCCL, driver or GPU.
Result<Place> find_place(const BackendSetup& setup);

/// A rank of the group.
struct Identity {
  std::string failure = {};       ///< why this rank cannot use NCCL, or empty
  std::int64_t version = 0;       ///< of NCCL
  std::string host = {};          ///< equal only on ranks that NCCL takes for one host
  std::string bus_id = {};        ///< of the GPU
  std::string id = {};            ///< if this rank is the first of a block, the block's id
  Code code = Code::unsupported;  ///< of `failure`
};

/// Number of ranks that share an id. Each id has a thread in the process that made it, which
/// introduces these ranks to each other.
inline constexpr Rank kRanksPerId = 256;

/// Returns the number of ids of a group of `size` ranks, and the first rank of each block. NCCL
/// divides the ranks in this way.
constexpr Rank id_count(Rank size) { return (size + kRanksPerId - 1) / kRanksPerId; }
constexpr Rank first_of_block(Rank block, Rank size) {
  const Rank blocks = id_count(size);
  const Rank larger = size % blocks;  // blocks that have one rank more than the others
  return block * (size / blocks) + (block < larger ? block : larger);
}

/// Exchanges the identities of all ranks, in one exchange of the bootstrap. `place`: the result of
/// find_place(). `needs_ids`: the communicator is made by ids. Fails on every rank if a rank cannot
/// use NCCL, or if ranks do not fit each other.
Result<std::vector<Identity>> exchange_identities(const BackendSetup& setup,
                                                  const Result<Place>& place, bool needs_ids);

}  // namespace c10dd::collectives::nccl
