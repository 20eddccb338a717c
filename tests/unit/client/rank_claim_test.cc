// SPDX-License-Identifier: Apache-2.0
// Which values come from the launcher if the caller does not give them.
#include "client/core/rank_claim.h"

#include <gtest/gtest.h>

namespace c10dd::client {
namespace {

const RankClaim kThirdOfFour{2, 4};

TEST(RankClaim, ABarrierWithoutASizeIsOfTheLaunchersWorld) {
  const auto claim = rank_in_barrier(kThirdOfFour, "barrier \"b\"", 0, 0);
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->rank, 2u);
  EXPECT_EQ(claim->world_size, 4u);
}

TEST(RankClaim, WhatTheCallerSaysCounts) {
  const auto claim = rank_in_barrier(kThirdOfFour, "barrier \"b\"", 0, 2);
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->rank, 0u);
  EXPECT_EQ(claim->world_size, 2u);
}

TEST(RankClaim, ARankWithoutASizeIsRefused) {
  const auto claim = rank_in_barrier(kThirdOfFour, "barrier \"b\"", 1, 0);
  ASSERT_FALSE(claim.has_value());
  EXPECT_EQ(claim.error().detail,
            "barrier \"b\": rank 1 was given without a world size; give both or neither");
}

TEST(RankClaim, WithoutALauncherTheWayIsNamed) {
  const auto no_rank = known_rank({}, "rank()");
  ASSERT_FALSE(no_rank.has_value());
  EXPECT_EQ(no_rank.error().code, Code::invalid_argument);
  EXPECT_TRUE(no_rank.error().detail.starts_with("rank(): this client has no rank: give rank"))
      << no_rank.error().detail;
  const auto no_size = known_rank({1, -1}, "rank()");
  ASSERT_FALSE(no_size.has_value());
  EXPECT_TRUE(no_size.error().detail.starts_with("rank(): this client has no world size:"));
}

TEST(RankClaim, AJoinClaimsTheLaunchersRankOnlyInAGroupOfItsWholeWorld) {
  EXPECT_EQ(requested_rank(kThirdOfFour, -1, 4, 4), 2);
  EXPECT_EQ(requested_rank(kThirdOfFour, 1, 4, 4), 1);
  EXPECT_EQ(requested_rank(kThirdOfFour, -1, 2, 4), -1);
  EXPECT_EQ(requested_rank(kThirdOfFour, -1, 3, 3), -1);
  EXPECT_EQ(requested_rank({}, -1, 1, 1), -1);
}

TEST(RankClaim, RanksGoFromZeroToTheWorldSize) {
  for (const RankClaim& good :
       {RankClaim{}, RankClaim{0, -1}, RankClaim{-1, 1}, RankClaim{0, 1}, RankClaim{7, 8}}) {
    EXPECT_TRUE(check_rank_claim(good).has_value()) << good.rank << " of " << good.world_size;
  }
  const auto refusal = [](std::int64_t rank, std::int64_t size) {
    const auto checked = check_rank_claim({rank, size});
    return checked ? std::string() : checked.error().detail;
  };
  EXPECT_EQ(refusal(8, 8), "rank is 8, but world_size is 8: ranks go from 0 to 7");
  EXPECT_EQ(refusal(-2, 8), "rank is -2: give -1 if it is unknown, or at least 0");
  EXPECT_EQ(refusal(0, 0), "world_size is 0: give -1 if it is unknown, or at least 1");
  EXPECT_EQ(refusal(0, 131'073), "world_size is 131073, limit 131072");
  EXPECT_EQ(refusal(0, -5), "world_size is -5: give -1 if it is unknown, or at least 1");
}

}  // namespace
}  // namespace c10dd::client
