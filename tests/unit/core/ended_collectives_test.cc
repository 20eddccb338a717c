// SPDX-License-Identifier: Apache-2.0
// Collectives that some ranks have ended while others wait in them, as those of NCCL whose calls
// differ.
#include <gtest/gtest.h>

#include "tests/unit/core/activity_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class EndedCollectivesTest : public RanksRun {};

TEST_F(EndedCollectivesTest, SayWhichRankHasEndedSomethingElse) {
  issue_all(all_but(3), kDp);
  issue(3, kDp, "barrier", "");
  live(300ms, all_);
  finish({3}, kDp);
  live(1s, all_);
  const std::string text_of =
      "stuck mismatch: collective 0 of group \"dp\" differs between ranks: ranks [0-1,3] on "
      "host-1, host-2, host-4 issued all_reduce of 8 float32 sum, rank 2 on host-3 (pid 103) "
      "issued barrier";
  EXPECT_EQ(text(), text_of);
  EXPECT_TRUE(diagnosis().hopeless);
  issue(3, kDp);
  live(2s, all_);
  EXPECT_EQ(text(), text_of) << "that it waits in the next one changes nothing";
}

TEST_F(EndedCollectivesTest, SayWhichRankWaitsWhereOthersHaveEndedSomethingElse) {
  issue_all(all_but(3), kDp);
  issue(3, kDp, "all_reduce", "of 9 float32 sum");
  live(300ms, all_);
  finish(all_but(3), kDp);
  live(1s, all_);
  EXPECT_EQ(text(),
            "stuck mismatch: all_reduce 0 of group \"dp\" differs between ranks: ranks [0-1,3] on "
            "host-1, host-2, host-4 issued all_reduce of 8 float32 sum, rank 2 on host-3 (pid 103) "
            "issued all_reduce of 9 float32 sum");
  EXPECT_EQ(diagnosis().ranks, std::vector<Rank>{2});
}

TEST_F(EndedCollectivesTest, CompareNothingWithACollectiveOfAnotherSequence) {
  issue_all(all_, kDp);
  live(300ms, all_);
  finish(all_, kDp);
  issue(1, kDp, "barrier", "");
  live(2s, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::missing);
  issue_all(all_but(1), kDp);
  live(1s, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::mismatch) << "of the barrier";
}

}  // namespace
}  // namespace c10dd::core
