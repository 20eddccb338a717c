// SPDX-License-Identifier: Apache-2.0
// Published calls of very many ranks: bounds, and answers that stay small.
#include "daemon/core/reports/call_board.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>

#include "protocol/limits.h"
#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBoardStart{1h};

PublishCall at_sequence(Rank rank, std::uint64_t sequence, std::uint64_t process_group = 1) {
  return {process_group, rank, {sequence, "all_reduce", "float32", 8, "sum", -1}, false};
}

TEST(CallBoard, RefusesOneRankTooManyAndTakesItWhenAnotherHasEnded) {
  CallBoard board;
  const auto most = static_cast<Rank>(limits::kWorldSize);
  for (Rank rank = 0; rank < most; ++rank) {
    for (const std::uint64_t group : {1, 2}) {
      ASSERT_TRUE(board.publish(at_sequence(rank, 0, group), kBoardStart));
    }
  }
  static_assert(2 * limits::kWorldSize == limits::kPublishedCallsPerJob);
  const Result<void> refused = board.publish(at_sequence(0, 0, 3), kBoardStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::quota_exceeded);
  EXPECT_NE(refused.error().detail.find("in this job: 262144"), std::string::npos)
      << refused.error().detail;
  EXPECT_NE(refused.error().detail.find("limit 262144"), std::string::npos);
  EXPECT_TRUE(board.publish(at_sequence(0, 5, 1), kBoardStart)) << "it replaces its own";
  PublishCall ended = at_sequence(7, 0, 2);
  ended.ended = true;
  EXPECT_TRUE(board.publish(ended, kBoardStart));
  EXPECT_TRUE(board.publish(at_sequence(0, 0, 3), kBoardStart));
}

TEST(CallBoard, AnAnswerNamesAtMostSoManyCallsAndKeepsTheMostCommonOne) {
  CallBoard board;
  constexpr Rank kSize = 1000;
  for (Rank rank = 0; rank < kSize; ++rank) {
    ASSERT_TRUE(board.publish(at_sequence(rank, rank < 30 ? rank : 100), kBoardStart));
  }
  const auto calls = board.read({1, kSize});
  ASSERT_TRUE(calls);
  EXPECT_EQ(calls->calls.size(), limits::kCallsRead);
  EXPECT_EQ(calls->skipped, 31 - limits::kCallsRead);
  EXPECT_EQ(calls->calls.front().ranks.count, 1u);
  EXPECT_EQ(calls->calls.back().call.sequence, 100u);
  EXPECT_EQ(calls->calls.back().ranks.count, 970u);
  EXPECT_EQ(calls->calls[calls->calls.size() - 2].call.sequence, 29u) << "the most common but one";
  EXPECT_EQ(calls->silent.count, 0u);
}

TEST(CallBoard, AnAnswerNamesAtMostSoManyRanges) {
  CallBoard board;
  for (Rank rank = 0; rank < 1000; rank += 2) {
    ASSERT_TRUE(board.publish(at_sequence(rank, 0), kBoardStart));
  }
  const auto calls = board.read({1, 1000});
  ASSERT_TRUE(calls);
  ASSERT_EQ(calls->calls.size(), 1u);
  EXPECT_EQ(calls->calls[0].ranks.count, 500u);
  EXPECT_EQ(calls->calls[0].ranks.ranges.size(), limits::kMissingNamed);
  EXPECT_EQ(calls->silent.count, 500u);
  EXPECT_EQ(calls->silent.ranges.size(), limits::kMissingNamed);
}

TEST(CallBoard, EveryRankPublishesAndAsksAndThatTakesNoQuadraticTime) {
  CallBoard board;
  constexpr Rank kSize = 100'000;
  const std::clock_t began = std::clock();
  for (Rank rank = 0; rank < kSize; ++rank) {
    ASSERT_TRUE(board.publish(at_sequence(rank * 7'919 % kSize, rank % 3), kBoardStart));
    ASSERT_TRUE(board.read({1, kSize}));
  }
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 5 * test::kSlowdown);
}

TEST(CallBoard, TakesSoManyDifferentCallsOfAProcessGroup) {
  CallBoard board;
  for (Rank rank = 0; rank < limits::kCallsPerProcessGroup; ++rank) {
    ASSERT_TRUE(board.publish(at_sequence(rank, rank), kBoardStart));
  }
  const Result<void> refused = board.publish(at_sequence(2'000, 2'000), kBoardStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::quota_exceeded);
  EXPECT_TRUE(board.publish(at_sequence(2'000, 5), kBoardStart)) << "that call is known";
}

TEST(CallBoard, ATickForgetsWhatWasNotPublishedAgain) {
  CallBoard board;
  ASSERT_TRUE(board.publish(at_sequence(0, 0), kBoardStart));
  ASSERT_TRUE(board.publish(at_sequence(1, 0), kBoardStart + 1s));
  EXPECT_EQ(board.next_deadline(), kBoardStart + limits::kPublishedCallLife);
  ASSERT_TRUE(board.publish(at_sequence(0, 0), kBoardStart + 2s));
  EXPECT_EQ(board.next_deadline(), kBoardStart + 1s + limits::kPublishedCallLife);
  board.tick(kBoardStart + 1s + limits::kPublishedCallLife);
  EXPECT_EQ(board.read({1, 2})->silent.count, 1u);
  board.tick(kBoardStart + 2s + limits::kPublishedCallLife);
  EXPECT_EQ(board.read({1, 2})->silent.count, 2u);
  EXPECT_EQ(board.next_deadline(), std::nullopt);
}

TEST(RankSet, IsASetOfRanks) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    RankSet ranks;
    std::set<Rank> model;
    const Rank most = 1 + random() % 40;
    for (int step = 0; step < 100; ++step) {
      const Rank rank = random() % most;
      if (model.insert(rank).second) {
        ranks.insert(rank);
      } else {
        model.erase(rank);
        ranks.erase(rank);
      }
      ASSERT_EQ(ranks.size(), model.size());
      ASSERT_EQ(ranks.ranges(100), ranges_of(std::vector<Rank>(model.begin(), model.end())));
      const Rank end = random() % (most + 3);
      std::vector<Rank> absent;
      for (Rank one = 0; one < end; ++one) {
        if (!model.contains(one)) absent.push_back(one);
      }
      ASSERT_EQ(ranks.gaps(end, 100), ranges_of(absent));
      ASSERT_EQ(ranks.size_below(end), end - absent.size());
      ASSERT_EQ(ranks_of(ranks.gaps(end, 100)), absent);
    }
  }
}

TEST(CallBoard, TakesPrintableNamesOnly) {
  CallBoard board;
  PublishCall publish = at_sequence(0, 0);
  publish.call.dtype = "float\x1b[31m";
  const Result<void> refused = board.publish(publish, kBoardStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_EQ(refused.error().detail.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace c10dd::core
