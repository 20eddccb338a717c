// SPDX-License-Identifier: Apache-2.0
// Tests what the diagnosis says of process groups: of messages, of blocked ranks, of groups that
// can never go on, and of ranks that deviate although all go on.
#include <gtest/gtest.h>

#include "protocol/diagnosis.h"
#include "tests/unit/protocol/diagnosed_job.h"

namespace c10dd::diagnosed {
namespace {

using Groups = std::vector<std::uint64_t>;

/// Ranks 0 and 1 come to the collectives of two groups in different orders.
DiagnosedJob crossed() {
  DiagnosedJob job(4);
  job.operation(In::collective, "all_reduce 5 of group \"tp\"", 12, 2s, {1}, {0});
  job.operation(In::collective, "all_reduce 7 of group \"dp\"", 11, 1s, {0, 2, 3}, {1});
  return job;
}

TEST(GroupDiagnosis, CallsACircleOfBlockedRanksStuckAtOnce) {
  DiagnosedJob job = crossed();
  const std::string text =
      " deadlock [0-1] 4: deadlock: rank 0 waits in all_reduce 7 of group \"dp\" for rank 1, which "
      "waits in all_reduce 5 of group \"tp\" for rank 0";
  EXPECT_EQ(job.text(3s), "waiting" + text) << "two threads may hold each other's ranks up";
  job.block({1});
  EXPECT_EQ(job.text(3s), "waiting" + text) << "rank 0 may come to the other group";
  EXPECT_EQ(job.text(1h), "waiting" + text) << "it still may";
  job.wait_fors[0].held = {0};  // no thread of rank 0 comes to tp
  EXPECT_EQ(job.text(16s), "waiting" + text) << "another thread may be known soon";
  EXPECT_EQ(job.text(17s), "stuck" + text);
  EXPECT_FALSE(job.found(17s).hopeless);
  job.wait_fors[0].held.clear();
  job.block({0});
  EXPECT_EQ(job.text(3s), "stuck" + text);
}

TEST(GroupDiagnosis, CallsACircleWithABarrierStuckOnlyIfNoThreadIsKnownThatMayComeToIt) {
  DiagnosedJob job(2);
  job.operation(In::collective, "all_reduce 5 of group \"tp\"", 12, 1s, {1}, {0});
  job.barrier("b", 2s, {0}, {1});
  EXPECT_EQ(job.found(1h).state, State::waiting) << "both may have a further thread";
  job.wait_fors[0].held = {0};
  EXPECT_EQ(job.found(1h).state, State::waiting) << "a thread of rank 1 is in no operation";
  job.block({1});
  EXPECT_EQ(job.found(16s).state, State::waiting);
  EXPECT_EQ(job.found(18s).state, State::stuck);
  job.wait_fors[0] = WaitFor{In::barrier, "a", kStart + 1s, {1}, {0}};
  job.ranks[1].blocked = false;
  EXPECT_EQ(job.found(18s).state, State::stuck) << "no other thread has called the daemon";
  job.ranks[0].calls_more = true;
  EXPECT_EQ(job.found(1h).state, State::waiting);
}

TEST(GroupDiagnosis, NamesASilentRankBeforeACircleOfOthers) {
  DiagnosedJob job = crossed();
  job.block({0, 1});
  EXPECT_EQ(job.found().kind, Kind::deadlock);
  job.wait_fors.reserve(3);
  job.operation(In::collective, "all_reduce 9 of group \"pp\"", 13, 3s, {2}, {1, 3});
  EXPECT_EQ(job.found().kind, Kind::deadlock);
  job.ranks[3].state = Is::silent;
  job.ranks[3].may_return = true;
  EXPECT_EQ(
      job.text(),
      "waiting missing [3] 3: all_reduce 7 of group \"dp\" waits for rank 3, which is silent; 3 "
      "ranks wait")
      << "a silent rank is awaited in its own operation, too";
  job.ranks[3].may_return = false;
  EXPECT_EQ(job.found().state, State::stuck);
  EXPECT_EQ(job.found().ranks, std::vector<Rank>{3}) << "a healthy rank is no cause";
}

TEST(GroupDiagnosis, NamesAllGroupsOfACircleAndTheOneOfAnotherCause) {
  DiagnosedJob job = crossed();
  EXPECT_EQ(job.found().process_groups, (Groups{11, 12}));
  job.wait_fors[0].process_group = 0;  // for example a barrier
  EXPECT_EQ(job.found().process_groups, Groups{11});
  job.wait_fors.erase(job.wait_fors.begin());
  EXPECT_EQ(job.found().kind, Kind::missing);
  EXPECT_EQ(job.found().process_groups, Groups{11});
  job.wait_fors[0].process_group = 0;
  EXPECT_EQ(job.found().process_groups, Groups{});
}

TEST(GroupDiagnosis, IsHopelessOnlyIfAllWhoWaitHaveToldItTwice) {
  DiagnosedJob job = crossed();
  EXPECT_FALSE(job.found().hopeless) << "its ranks are not blocked";
  job.block({0, 1});
  EXPECT_TRUE(job.found().hopeless);
  EXPECT_TRUE(job.found(7s).hopeless);
  EXPECT_FALSE(job.found(6s).hopeless) << "another thread may come";
  job.wait_fors[0].confirmed = false;
  EXPECT_FALSE(job.found().hopeless);
  DiagnosedJob mismatch(2);
  WaitFor& one = mismatch.operation(In::collective, "collective 5", 11, 1s, {0, 1}, {});
  one.issued = {{"all_reduce of 8 float32 sum", {0}}, {"broadcast of 8 float32 from rank 0", {1}}};
  EXPECT_TRUE(mismatch.found().hopeless);
  EXPECT_EQ(mismatch.found().process_groups, Groups{11});
  one.confirmed = false;
  EXPECT_FALSE(mismatch.found().hopeless);
  DiagnosedJob missing(2);
  missing.operation(In::collective, "it", 11, 1s, {0}, {1});
  missing.block({0, 1});
  EXPECT_FALSE(missing.found().hopeless) << "the other rank may come";
}

TEST(GroupDiagnosis, NamesTheSenderOfAMessageThatClosesACircle) {
  DiagnosedJob job(3);
  const std::string what = "recv 3 of group \"pp\"";
  job.operation(In::receive, what, 11, 2s, {0}, {1}).unsent = true;
  job.operation(In::collective, "all_reduce 7 of group \"pp\"", 11, 1s, {1, 2}, {0});
  const std::string text = " unsent [1] 3: " + what +
                           " waits for a message from rank 1, which went on without sending it";
  EXPECT_EQ(job.text(), "waiting" + text);
  job.block({0});
  EXPECT_EQ(job.text(), "waiting" + text) << "the sender has another thread";
  job.block({1});
  EXPECT_EQ(job.text(), "stuck" + text);
  EXPECT_FALSE(job.found().hopeless);
  job.wait_fors[0].unsent = false;
  EXPECT_EQ(job.found().kind, Kind::deadlock);
}

TEST(GroupDiagnosis, DoesNotBlameASenderThatWaitsForOthers) {
  DiagnosedJob job(4);
  job.ranks[3].state = Is::silent;
  job.block({0, 1, 2});
  job.operation(In::receive, "recv 3 of group \"pp\"", 11, 2s, {0}, {1}).unsent = true;
  job.operation(In::receive, "recv 3 of group \"pp\"", 11, 1s, {1}, {2}).unsent = true;
  job.operation(In::receive, "recv 4 of group \"pp\"", 11, 1s, {2}, {3});
  EXPECT_EQ(
      job.text(),
      "stuck missing [3] 3: recv 4 of group \"pp\" waits for rank 3, which is silent; 3 ranks "
      "wait");
}

TEST(GroupDiagnosis, NamesTheRankThatDoesNotReceive) {
  DiagnosedJob job(2);
  WaitFor& one = job.operation(In::send, "send 3 of group \"pp\"", 11, 2s, {0}, {1});
  EXPECT_EQ(job.text(),
            "waiting missing [1] 1: send 3 of group \"pp\" waits for rank 1, which is connected, "
            "but has not received the message; 1 rank waits");
  one.unsent = true;
  EXPECT_EQ(job.text(),
            "waiting unsent [1] 1: send 3 of group \"pp\" waits for rank 1, which went on without "
            "receiving it");
}

TEST(GroupDiagnosis, TakesARankThatIsQueuedWhileItWaitsForOneThatIsAwaited) {
  DiagnosedJob job(4);
  job.operation(In::collective, "a", 11, 1s, {0, 1, 2}, {}).queued = {1};
  EXPECT_EQ(job.text(),
            "waiting queued [1] 3: a is still queued on rank 1, behind other work of its backend; "
            "3 ranks wait");
  job.operation(In::collective, "b", 12, 2s, {1}, {3});
  EXPECT_EQ(job.text(),
            "waiting missing [3] 3: b waits for rank 3, which is connected, but has not issued it; "
            "3 ranks wait");
  job.wait_fors[1] = {In::collective, "b", kStart + 2s, {0, 1}, {}};
  job.wait_fors[1].queued = {0};
  EXPECT_EQ(job.found().kind, Kind::queued) << "a barrier may be of another thread";
  job.wait_fors[1].process_group = 12;
  EXPECT_EQ(job.found().kind, Kind::deadlock);
  EXPECT_EQ(job.cause(), "[0-1] 3");
  job.wait_fors[0].queued = {0, 1};
  EXPECT_EQ(job.found().kind, Kind::queued) << "no report says what holds up rank 0";
  EXPECT_EQ(job.cause(), "[0] 2");
}

TEST(GroupDiagnosis, NamesAKnownRankBeforeOnesOfWhichNothingIsKnown) {
  DiagnosedJob job(4);
  job.operation(In::collective, "a", 11, 1s, {0}, {}).unnamed = 1;
  EXPECT_EQ(job.text(), "waiting missing [] 1: a waits for 1 more rank; 1 rank waits");
  job.operation(In::collective, "b", 12, 2s, {1}, {3});
  EXPECT_EQ(job.cause(), "[3] 1");
}

TEST(GroupDiagnosis, SaysWhichRanksHaveIssuedOtherCollectives) {
  DiagnosedJob job(6, true);
  Deviation& one = job.deviations.emplace_back(
      Deviation{.group = "group \"dp\"", .process_group = 11, .since = kStart + 1s});
  one.ranks = {3};
  one.others = {0, 1, 2};
  one.from = 4096;
  one.to = 8192;
  const std::string text =
      "the collectives of group \"dp\" differ between sequences 4096 and 8192: ";
  EXPECT_EQ(job.text(), "stuck diverged [3] 0: " + text +
                            "rank 3 on n3 (pid 1003) has issued others than the other ranks");
  EXPECT_EQ(job.found().since, kStart + 1s);
  EXPECT_EQ(job.found().process_groups, Groups{11});
  EXPECT_EQ(job.found().hosts, Texts{"n3"});
  EXPECT_FALSE(job.found().hopeless);
  one.ranks = {2, 3};
  one.others = {0, 1, 4};
  EXPECT_EQ(job.sentence(), text + "ranks [2-3] on n2, n3 have issued others than the other ranks");
  one.others = {0, 1};
  EXPECT_EQ(job.text(), "stuck diverged [0-3] 0: " + text +
                            "ranks [2-3] on n2, n3 have issued others than ranks [0-1] on n0, n1")
      << "nobody knows which half is wrong";
}

TEST(GroupDiagnosis, SaysWhichRankHoldsTheOthersUp) {
  DiagnosedJob job(512);
  job.ranks[3] = {.rank = 3, .host = "node9", .pid = 4711};
  Deviation& one = job.deviations.emplace_back(
      Deviation{.kind = Deviation::Kind::straggler, .group = "group \"dp\"", .process_group = 11});
  one.ranks = {3};
  one.others = from_to(4, 511);
  for (const std::size_t at : {0, 1, 2}) one.others.insert(one.others.begin() + at, at);
  EXPECT_EQ(
      job.text(),
      "waiting straggler [3] 511: group \"dp\" is held up by rank 3 on node9 (pid 4711), which "
      "comes late to its collectives; 511 ranks wait");
  EXPECT_EQ(job.found().process_groups, Groups{11});
  one.ranks = {3, 4};
  one.others = {5};
  EXPECT_EQ(
      job.sentence(),
      "group \"dp\" is held up by ranks [3-4] on node9, which come late to its collectives; 1 "
      "rank waits");
}

TEST(GroupDiagnosis, SaysThatRanksHangBeforeItSaysThatOneIsLate) {
  DiagnosedJob job(3);
  job.deviations.push_back({.kind = Deviation::Kind::straggler, .ranks = {2}, .others = {0, 1}});
  job.deviations.push_back({.kind = Deviation::Kind::diverged, .ranks = {1}, .others = {0, 2}});
  EXPECT_EQ(job.found().kind, Kind::diverged) << "although it is not older";
  job.operation(In::collective, "it", 11, 1s, {0, 1}, {2});
  EXPECT_EQ(job.found().kind, Kind::missing);
}

}  // namespace
}  // namespace c10dd::diagnosed
