// SPDX-License-Identifier: Apache-2.0
#include "client/core/rank_claim.h"

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::client {

Result<void> check_rank_claim(const RankClaim& claim) {
  const auto refused = [](const char* name, std::int64_t value) {
    return failure(Code::invalid_argument, "{} is {}: give -1 if it is unknown, or at least {}",
                   name, value, name[0] == 'r' ? 0 : 1);
  };
  if (claim.rank < -1) return refused("rank", claim.rank);
  if (claim.world_size < -1 || claim.world_size == 0)
    return refused("world_size", claim.world_size);
  if (claim.world_size > limits::kWorldSize) {
    return failure(Code::invalid_argument, "world_size is {}, limit {}", claim.world_size,
                   limits::kWorldSize);
  }
  if (claim.world_size == -1 || claim.rank < claim.world_size) return {};
  return failure(Code::invalid_argument, "rank is {}, but world_size is {}: ranks go from 0 to {}",
                 claim.rank, claim.world_size, claim.world_size - 1);
}

Result<BarrierRank> known_rank(const RankClaim& claim, const std::string& what) {
  if (claim.rank >= 0 && claim.world_size > 0) {
    return BarrierRank{static_cast<Rank>(claim.rank), static_cast<std::uint32_t>(claim.world_size)};
  }
  return failure(
      Code::invalid_argument,
      "{}: this client has no {}: give rank and world size in this call or when "
      "connecting, or start the process with a launcher and connect with from_environment(){}",
      what, claim.rank < 0 ? "rank" : "world size",
      claim.launcher.empty() ? "" : "; " + claim.launcher);
}

Result<BarrierRank> rank_in_barrier(const RankClaim& claim, const std::string& what, Rank asked,
                                    std::uint32_t asked_size) {
  if (asked_size > 0) return BarrierRank{asked, asked_size};
  if (asked == 0) return known_rank(claim, what);
  return failure(Code::invalid_argument,
                 "{}: rank {} was given without a world size; give both or neither", what, asked);
}

std::int64_t requested_rank(const RankClaim& claim, std::int64_t asked, std::uint32_t min,
                            std::uint32_t max) {
  const bool whole_world = min == max && static_cast<std::int64_t>(max) == claim.world_size;
  return asked < 0 && whole_world ? claim.rank : asked;
}

}  // namespace c10dd::client
