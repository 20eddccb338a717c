// SPDX-License-Identifier: Apache-2.0
// Options of Client::exchange() and Membership::exchange(). Standard library only.
#pragma once

#include <chrono>
#include <cstdint>

#include <c10dd/language.h>

namespace c10dd {

/// Which parts each rank gives and gets; see Client::exchange().
enum class ExchangeShape { all, to_root, from_root, transpose };

struct ExchangeOptions {
  /// This process's rank and the number of ranks that take part. A world size of 0 means the
  /// client's rank and world size; then `rank` must be 0. A membership sets both, and generation.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  /// Ranks exchange with each other only if they give the same name and generation.
  std::uint64_t generation = 0;
  ExchangeShape shape = ExchangeShape::all;
  std::uint32_t root = 0;  ///< rank of the root, for to_root and from_root
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

}  // namespace c10dd
