// SPDX-License-Identifier: Apache-2.0
// The rank and world size that a process has from its launcher or from ClientOptions. Barriers,
// exchanges, process groups and joins use these values if the caller gives none. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/error.h"

namespace c10dd::client {

/// The rank and world size from the launcher or ClientOptions; -1 if not known.
struct RankClaim {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
  /// What the variables of launchers say, for error texts; see LaunchEnvironment::summary(). Empty:
  /// nobody has looked.
  std::string launcher = {};
};

/// The rank and the number of ranks of one barrier or exchange.
struct BarrierRank {
  Rank rank = 0;
  std::uint32_t world_size = 0;
};

/// Fails with invalid_argument if the rank is below -1, if the world size is below -1 or 0, or if
/// the rank is not below the world size.
Result<void> check_rank_claim(const RankClaim& claim);

/// Returns the rank and world size of `claim`. Fails with invalid_argument if either is not known.
/// The error text starts with `what`, for example "barrier \"start\"".
Result<BarrierRank> known_rank(const RankClaim& claim, const std::string& what);

/// Returns the rank and world size for a barrier. If `asked_size` is above 0, returns `asked` and
/// `asked_size`. If both are 0, returns known_rank(). If only `asked` is above 0, fails with
/// invalid_argument.
Result<BarrierRank> rank_in_barrier(const RankClaim& claim, const std::string& what, Rank asked,
                                    std::uint32_t asked_size);

/// Returns the rank that a join requests: `asked` if it is not negative. If `asked` is negative,
/// and `min` and `max` both equal the world size of `claim`, returns the rank of `claim`. Otherwise
/// returns a negative number: then the daemon assigns a rank.
std::int64_t requested_rank(const RankClaim& claim, std::int64_t asked, std::uint32_t min,
                            std::uint32_t max);

}  // namespace c10dd::client
