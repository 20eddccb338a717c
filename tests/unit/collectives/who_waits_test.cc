// SPDX-License-Identifier: Apache-2.0
// The sentences that say which ranks wait in which call, and who is at fault.
#include "collectives/who_waits.h"

#include <gtest/gtest.h>

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;

/// Returns a call that has waited for its whole time-out.
CollectiveCall call(Collective collective, std::uint64_t sequence = 0, Rank root = 0) {
  CollectiveCall call;
  call.operation = {.collective = collective,
                    .output = {.count = 1000},
                    .input = {.count = 1000},
                    .root = root,
                    .sequence = sequence,
                    .timeout = 2s};
  call.finished = call.started + 2s;
  return call;
}

Operation op(Collective collective, std::uint64_t sequence = 0, Rank root = 0) {
  return call(collective, sequence, root).operation;
}

const CollectiveCall kAllReduce = call(Collective::all_reduce);

SharedCall in(const CollectiveCall& one, std::vector<Rank> ranks) {
  return {published(one.operation), {ranks.size(), ranges_of(ranks)}};
}

SomeRanks silent(std::vector<Rank> ranks) { return {ranks.size(), ranges_of(ranks)}; }

/// Returns the time-out of a call as Gloo reports it when it has waited for rank 2.
Failure late() {
  Failure seen = failure(Code::timed_out, "all_reduce 0 timed out");
  seen.missing.push_back({2, MissingRank::Cause::not_arrived, "host-c", 9, Duration{0}, ""});
  return seen;
}

std::vector<Rank> missing_ranks(const Failure& failure) {
  std::vector<Rank> ranks;
  for (const MissingRank& one : failure.missing) ranks.push_back(one.rank);
  return ranks;
}

const std::vector<ProcessAddress> kProcesses = {{"host-a", 5}, {"host-b", 7}, {"host-c", 9}};
const std::string kNoCall =
    "in no collective of this group, or in one that started less than half a time-out ago";

TEST(WhoWaits, SaysACallInFewWords) {
  EXPECT_EQ(text_of(published(op(Collective::all_reduce, 3))), "all_reduce 3 of 1000 float32 sum");
  EXPECT_EQ(text_of(published(op(Collective::broadcast, 0, 1))),
            "broadcast 0 of 1000 float32 from rank 1");
  EXPECT_EQ(text_of(published(op(Collective::barrier, 7))), "barrier 7");
  EXPECT_EQ(text_of(published(op(Collective::all_gather))), "all_gather 0 of 1000 float32");
  EXPECT_EQ(text_of(published(op(Collective::gather, 0, 2))), "gather 0 of 1000 float32 to rank 2");
  EXPECT_EQ(text_of(published(op(Collective::scatter, 0, 2))),
            "scatter 0 of 1000 float32 from rank 2");
  EXPECT_EQ(text_of(published(op(Collective::reduce, 1, 0))),
            "reduce 1 of 1000 float32 sum to rank 0");
  EXPECT_EQ(text_of(published(op(Collective::reduce_scatter, 2))),
            "reduce_scatter 2 of 1000 float32 sum");
}

TEST(WhoWaits, TheOddRankIsNamedFirstAndIsWhoIsMissing) {
  Failure seen = late();
  explain(seen, kAllReduce, {{in(call(Collective::broadcast), {1}), in(kAllReduce, {0, 2})}, 0, {}},
          kProcesses);
  EXPECT_EQ(
      seen.detail,
      "all_reduce 0 timed out; rank 1 on host-b (pid 7) is in broadcast 0 of 1000 float32 from "
      "rank 0; ranks [0,2] (rank 0 on host-a (pid 5), rank 2 on host-c (pid 9)) are in "
      "all_reduce 0 of 1000 float32 sum");
  ASSERT_EQ(missing_ranks(seen), (std::vector<Rank>{1}));
  EXPECT_EQ(seen.missing[0].host, "host-b");
  EXPECT_EQ(seen.missing[0].cause, MissingRank::Cause::elsewhere);
  EXPECT_EQ(seen.missing[0].doing, "broadcast 0 of 1000 float32 from rank 0");
}

TEST(WhoWaits, InATieTheOthersAreThoseInAnotherCallThanThisRank) {
  const PublishedCalls calls{
      {in(kAllReduce, {0}), in(call(Collective::broadcast), {1})}, 0, silent({2})};
  Failure seen = late();
  explain(seen, kAllReduce, calls, kProcesses);
  EXPECT_EQ(missing_ranks(seen), (std::vector<Rank>{1}));
  Failure other = late();
  explain(other, call(Collective::broadcast), calls, kProcesses);
  EXPECT_EQ(missing_ranks(other), (std::vector<Rank>{0}));
  Failure ahead = late();
  explain(ahead, call(Collective::barrier, 1), calls, kProcesses);
  EXPECT_EQ(missing_ranks(ahead), (std::vector<Rank>{0, 1}));
}

TEST(WhoWaits, WhoIsOnlyAheadOrBehindIsNotBlamed) {
  // All ranks run the same program. Rank 2 hangs, and the others wait in the next calls they can
  // reach.
  Failure seen = late();
  explain(seen, kAllReduce,
          {{in(kAllReduce, {0}), in(call(Collective::barrier, 1), {1})}, 0, silent({2})},
          kProcesses);
  EXPECT_EQ(missing_ranks(seen), (std::vector<Rank>{2}));
  EXPECT_EQ(seen.missing[0].cause, MissingRank::Cause::not_arrived);
  EXPECT_EQ(seen.missing[0].doing, kNoCall);
  EXPECT_EQ(
      seen.detail,
      "all_reduce 0 timed out; rank 0 on host-a (pid 5) is in all_reduce 0 of 1000 float32 sum; "
      "rank 1 on host-b (pid 7) is in barrier 1; rank 2 on host-c (pid 9) is " +
          kNoCall);
}

TEST(WhoWaits, OfTheSilentRanksThoseThatTheBackendWaitedForAreMissing) {
  Failure seen = late();
  explain(seen, kAllReduce, {{in(kAllReduce, {0})}, 0, silent({1, 2})}, kProcesses);
  EXPECT_EQ(missing_ranks(seen), (std::vector<Rank>{2}));
  seen = late();
  explain(seen, kAllReduce, {{in(kAllReduce, {0, 2})}, 0, silent({1})}, kProcesses);
  EXPECT_EQ(missing_ranks(seen), (std::vector<Rank>{1}));
}

TEST(WhoWaits, AllInTheSameCallSaysSo) {
  Failure seen = late();
  explain(seen, kAllReduce, {{in(kAllReduce, {0, 1, 2})}, 0, {}}, kProcesses);
  EXPECT_TRUE(seen.detail.ends_with("; every rank is in all_reduce 0 of 1000 float32 sum"))
      << seen.detail;
  EXPECT_EQ(missing_ranks(seen), (std::vector<Rank>{2})) << "as the backend saw it";
}

TEST(WhoWaits, ALateRankIsToldThatItWasLate) {
  CollectiveCall own = kAllReduce;
  own.finished = own.started + 500ms;
  Failure seen = failure(Code::timed_out, "all_reduce 0 failed: rank 0 stopped");
  explain(seen, own, {{in(kAllReduce, {0, 1, 2})}, 0, {}}, kProcesses);
  EXPECT_TRUE(seen.detail.ends_with("; this rank started its call only 0.5 s ago")) << seen.detail;
}

TEST(WhoWaits, ALostPeerIsExplainedOnlyByCallsThatDoNotMatch) {
  const Failure lost = failure(Code::aborted, "rank 2 is lost");
  Failure seen = lost;
  explain(seen, kAllReduce,
          {{in(kAllReduce, {0}), in(call(Collective::barrier, 1), {1})}, 0, silent({2})},
          kProcesses);
  EXPECT_EQ(seen.detail, lost.detail);
  explain(seen, kAllReduce,
          {{in(call(Collective::broadcast), {2}), in(kAllReduce, {0})}, 0, silent({1})},
          kProcesses);
  EXPECT_EQ(
      seen.detail,
      "rank 2 is lost; rank 2 on host-c (pid 9) is in broadcast 0 of 1000 float32 from rank 0; "
      "rank 0 on host-a (pid 5) is in all_reduce 0 of 1000 float32 sum");
  EXPECT_TRUE(seen.missing.empty()) << "who is lost is known better";
}

TEST(WhoWaits, SaysHowManyThereAreBesidesThoseNamed) {
  Failure seen = late();
  PublishedCalls calls{{in(call(Collective::broadcast), {0, 2, 4}), in(kAllReduce, {1})}, 4, {}};
  calls.calls[0].ranks.count = 500;
  explain(seen, kAllReduce, calls, {});
  EXPECT_NE(seen.detail.find("ranks [0,2,4] and 497 more are in broadcast"), std::string::npos)
      << seen.detail;
  EXPECT_NE(seen.detail.find("; other ranks are in 4 more calls"), std::string::npos)
      << seen.detail;
}

}  // namespace
}  // namespace c10dd::collectives
