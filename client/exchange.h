// SPDX-License-Identifier: Apache-2.0
// Options of Client::exchange() and Membership::exchange(). Standard library only.
#pragma once

#include <chrono>
#include <cstdint>

#include <c10dd/language.h>

namespace c10dd {

/// Decides which parts each rank gives and which parts it gets; see Client::exchange().
enum class ExchangeShape { all, to_root, from_root, transpose };

struct ExchangeOptions {
  /// Rank of this process, and number of ranks that take part. If `world_size` is 0, the client's
  /// rank and world size are used, and `rank` must be 0. Membership::exchange() sets `rank`,
  /// `world_size` and `generation`.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  /// Ranks exchange data only if they give the same name and generation.
  std::uint64_t generation = 0;
  ExchangeShape shape = ExchangeShape::all;
  std::uint32_t root = 0;  ///< rank of the root, for to_root and from_root
  /// If processes of an earlier launch have met under this name and are still connected: true to
  /// wait until they have closed their clients, false to fail at once. A process that has the same
  /// rank and is still connected is a failure in both cases. Membership::exchange() ignores it.
  bool awaits_earlier = false;
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

}  // namespace c10dd
