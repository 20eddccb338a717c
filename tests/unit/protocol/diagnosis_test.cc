// SPDX-License-Identifier: Apache-2.0
// The diagnosis of a job that does not go on: the sentence of each kind, which kind and which
// wait-for win.
#include "protocol/diagnosis.h"

#include <gtest/gtest.h>

#include "tests/unit/protocol/diagnosed_job.h"

namespace c10dd::diagnosed {
namespace {

TEST(Diagnosis, NamesTheSilentRankForWhich4095Wait) {
  DiagnosedJob job(4096, true);
  job.ranks[17] = {.rank = 17, .host = "node9", .pid = 4711, .state = Is::silent};
  Places others = from_to(0, 4095);
  others.erase(others.begin() + 17);
  job.add(In::collective, "all_reduce 48113 of group \"dp\"", 3s, others, {17});
  EXPECT_EQ(job.text(),
            "stuck missing [17] 4095: all_reduce 48113 of group \"dp\" waits for rank 17 on node9 "
            "(pid 4711), which is silent; 4095 ranks wait");
  EXPECT_EQ(job.found().since, kStart + 3s);
  EXPECT_EQ(job.found().hosts, Texts{"node9"});
  EXPECT_EQ(job.found().evidence,
            Texts{"all_reduce 48113 of group \"dp\": ranks [0-16,18-4095] on n0, n1, n10 and 4092 "
                  "more hosts wait for rank 17 on node9 (pid 4711)"});
}

TEST(Diagnosis, SaysWhyAWaitCannotEndWell) {
  DiagnosedJob job(4, true);
  job.add(In::group, "group g", 1s, {0, 1, 2}, {3}).lost = "is broken: rank 3 is lost";
  EXPECT_EQ(job.text(), "stuck lost [3] 3: group g is broken: rank 3 is lost");
  job.add(In::launch, "rank 1", 0s, {}, {1}).lost = "has given up";
  EXPECT_EQ(job.text(), "stuck lost [1] 0: rank 1 has given up") << "although it waits elsewhere";
  job.wait_fors = {WaitFor{In::receive, "receive 5", kStart, {2}, {1}}};
  job.wait_fors[0].unsent = true;
  EXPECT_EQ(job.text(),
            "waiting unsent [1] 1: receive 5 waits for a message from rank 1 on n1 (pid 1001), "
            "which went on without sending it");
}

TEST(Diagnosis, SaysWhichCallsDifferAndBlamesTheFewer) {
  DiagnosedJob job(8);
  WaitFor& call = job.add(In::collective, "collective 12", 1s, from_to(0, 7), {});
  call.issued = {{"broadcast of 10 float32", {7}}, {"all_reduce of 9 int8 sum", from_to(0, 6)}};
  EXPECT_EQ(job.text(),
            "stuck mismatch [7] 8: collective 12 differs between ranks: ranks [0-6] issued "
            "all_reduce of 9 int8 sum, rank 7 issued broadcast of 10 float32");
  call.issued = {{"a", {4, 5}}, {"b", {6}}, {"c", {0, 1}}};
  EXPECT_EQ(job.cause(), "[0-1,4-6] 8") << "no call is that of the most";
  call.issued = {{"a", {0}}, {"b", {2, 3, 4}}, {"c", {1}}, {"d", {5}}};
  EXPECT_EQ(job.text(),
            "stuck mismatch [0-1,5] 8: collective 12 differs between ranks: ranks [2-4] issued b, "
            "rank 0 issued a, rank 1 issued c, and 1 more call");
}

TEST(Diagnosis, SaysHowRanksWaitForEachOther) {
  DiagnosedJob job(9, true);
  job.barrier("a", 1s, {0}, {4});
  job.add(In::key, "key \"x\" is not set", 2s, {4}, {0});
  job.barrier("late", 3s, {2, 3}, {0});
  EXPECT_EQ(job.text(),
            "stuck deadlock [0,4] 4: deadlock: rank 0 on n0 (pid 1000) waits in barrier a for rank "
            "4 on n4 (pid 1004), which waits (key \"x\" is not set) for rank 0");
  job.wait_fors.clear();
  job.barrier("a", 1s, from_to(0, 3), {4, 5, 6, 8});  // rank 8 is only late
  job.barrier("b", 2s, from_to(4, 7), from_to(0, 3));
  EXPECT_EQ(job.text(),
            "stuck deadlock [0-6] 8: deadlock: ranks [0-3] on n0, n1, n2 and 1 more host wait in "
            "barrier a for ranks [4-6] on n4, n5, n6, which wait in barrier b for ranks [0-3]");
}

TEST(Diagnosis, NamesThreeWaitsOfALongCircle) {
  DiagnosedJob job(5);
  for (std::size_t i = 0; i < 5; ++i) {
    job.add(In::barrier, "b" + std::to_string(i), Duration(5s - i * 1s), {i}, {(i + 1) % 5});
  }
  EXPECT_EQ(
      job.text(),
      "stuck deadlock [0-4] 5: deadlock: rank 4 waits in b4 for rank 0, which waits in b0 for "
      "rank 1, which waits in b1 for rank 2; in all, 5 waits form the circle");
}

TEST(Diagnosis, SaysWhereMissingRanksAre) {
  const std::vector<std::tuple<Is, std::string, std::string, std::string>> cases = {
      {Is::live, "in phase a", "which is in phase a", "which are in phase a"},
      {Is::slow, "in phase a", "which has stalled in phase a", "which have stalled in phase a"},
      {Is::slow, "", "which has stalled", "which have stalled"},
      {Is::never_connected, "x", "which never connected", "which never connected"},
      {Is::closed, "x", "whose connection has closed", "whose connections have closed"},
      {Is::silent, "x", "which is silent", "which are silent"},
      {Is::no_answer, "x", "whose host does not answer", "whose hosts do not answer"},
      {Is::left, "x", "which has left", "which have left"},
      {Is::gone, "killed", "which is gone: killed", "which are gone: killed"},
      {Is::gone, "", "which is gone", "which are gone"},
  };
  for (const auto& [is, doing, one, several] : cases) {
    DiagnosedJob job(4);
    job.add(In::barrier, "it", 1s, {0, 1}, {3});
    job.ranks[2] = {2, "n2", 7, is, doing};
    job.ranks[3] = {3, "n3", 7, is, doing};
    const std::string state(is < Is::closed ? "waiting" : "stuck");
    EXPECT_EQ(job.text(), state + " missing [3] 2: it waits for rank 3 on n3 (pid 7), " + one +
                              "; 2 ranks wait");
    job.wait_fors[0] = WaitFor{In::barrier, "it", kStart, {1}, {2, 3}};
    EXPECT_EQ(job.text(), state + " missing [2-3] 1: it waits for ranks [2-3] on n2, n3, " +
                              several + "; 1 rank waits");
  }
  DiagnosedJob job(3);
  for (const std::size_t i : {1, 2}) job.ranks[i] = {Rank(i), "n", 0, Is::no_answer, ""};
  job.add(In::barrier, "it", 1s, {0}, {1, 2});
  EXPECT_TRUE(job.sentence().starts_with("it waits for ranks [1-2] on n, whose host does not"));
  const Texts done = {"arrived",
                      "joined",
                      "arrived",
                      "set it",
                      "issued it",
                      "sent the message",
                      "received the message"};
  for (std::size_t i = 0; i < done.size(); ++i) {
    DiagnosedJob live(3);
    live.add(static_cast<In>(i), "it", 1s, {0}, {1, 2});
    EXPECT_NE(live.sentence().find("are connected, but have not " + done[i]), std::string::npos);
  }
}

TEST(Diagnosis, NamesRanksByWhereTheyAreTheWorstFirst) {
  DiagnosedJob job(8);
  job.ranks[2].state = Is::never_connected;
  job.ranks[3].state = Is::left;
  job.ranks[4].state = job.ranks[6].state = Is::silent;
  job.ranks[4].doing = "in phase a";  // of no interest: it is silent
  WaitFor& one = job.add(In::barrier, "it", 1s, {0}, {3, 4, 6});
  const std::string two = "it waits for rank 3, which has left, ";
  EXPECT_EQ(job.sentence(), two + "and for ranks [4,6], which are silent; 1 rank waits");
  one.awaited = {2, 3, 4, 6};
  const std::string three = two + "for ranks [4,6], which are silent, ";
  EXPECT_EQ(job.sentence(), three + "and for rank 2, which never connected; 1 rank waits");
  one.awaited = {2, 3, 4, 5, 6, 7};
  EXPECT_EQ(job.sentence(), three + "and for rank 2, which never connected; 1 rank waits")
      << "ranks that live may only be late";
  job.ranks[5].state = job.ranks[7].state = Is::slow;
  const std::string more = three + "for rank 2, which never connected, and ";
  EXPECT_EQ(job.sentence(), more + "2 more ranks; 1 rank waits");
  one.unnamed = 3;
  EXPECT_EQ(job.sentence(), more + "5 more ranks; 1 rank waits");
}

TEST(Diagnosis, CountsRanksOfWhichNothingIsKnown) {
  DiagnosedJob job(4);
  WaitFor& one = job.add(In::launch, "it", 1s, {0, 1, 2}, {});
  one.unnamed = 1;
  EXPECT_EQ(job.sentence(), "it waits for 1 more rank; 3 others are connected");
  one.unnamed = 5;
  one.awaited = {3};
  EXPECT_EQ(job.text(),
            "waiting missing [3] 3: it waits for rank 3, which is connected, but has not arrived, "
            "and for 5 more ranks; 3 others are connected");
  EXPECT_EQ(job.found().evidence, Texts{"it: ranks [0-2] wait for rank 3 and 5 more ranks"});
}

TEST(Diagnosis, SaysWhoWaitsForAKeyAndForWhom) {
  DiagnosedJob job(5);
  job.ranks[4].state = Is::silent;
  job.add(In::key, "key \"x\" is not set", 1s, from_to(0, 3), {4});
  const std::string key = ": key \"x\" is not set; ";
  EXPECT_EQ(job.text(), "stuck missing [4] 4" + key + "4 ranks wait for rank 4, which is silent");
  job.wait_fors = {WaitFor{In::key, "key \"x\" is not set", kStart, {0}, {}}};
  EXPECT_EQ(job.text(), "waiting missing [] 1" + key + "rank 0 waits");
  job.barrier("a", 2s, {1, 2}, {0});
  const std::string waits = "waiting missing [] 3" + key;
  EXPECT_EQ(job.text(), waits + "rank 0 waits, and 2 more ranks wait for it");
  job.wait_fors[0].waiting = {0, 3};
  job.wait_fors[1].waiting = {1};
  EXPECT_EQ(job.text(), waits + "ranks [0,3] wait, and 1 more rank waits for them");
  job.wait_fors = {WaitFor{In::receive, "receive 1", kStart, {0}, {}}};
  EXPECT_EQ(job.text(), "waiting missing [] 1: rank 0 waits in receive 1");
}

TEST(Diagnosis, SaysWhyACollectiveDoesNotEndThatAllHaveIssued) {
  DiagnosedJob job(8);
  job.add(In::barrier, "it", 6s, {7}, {0});
  WaitFor& call = job.add(In::collective, "all_reduce 7", 5s, from_to(0, 6), {});
  const std::string text =
      " hung [] 8: all_reduce 7 does not end, although all its ranks are in it; 8 ranks wait; "
      "check the network and the devices";
  EXPECT_EQ(job.text(35s - 1ns), "waiting" + text);
  EXPECT_EQ(job.text(35s), "stuck" + text);
  EXPECT_FALSE(job.found(35s - 1ns).says_the_same(job.found(35s)));
  call.ended = 1;
  EXPECT_EQ(job.text(35s),
            "stuck hung [0-6] 8: all_reduce 7 does not end on ranks [0-6], although 1 other rank "
            "has ended it; 8 ranks wait; check the network and the devices");
  call.queued = {3};
  const std::string queued = ": all_reduce 7 is still queued on rank";
  EXPECT_EQ(job.text(1h),
            "waiting queued [3] 8" + queued + " 3, behind other work of its backend; 8 ranks wait");
  call.queued = {3, 4};
  EXPECT_EQ(job.text(), "waiting queued [3-4] 8" + queued +
                            "s [3-4], behind other work of their backends; 8 ranks wait");
}

TEST(Diagnosis, CountsProcessesIfRanksAreNotKnown) {
  DiagnosedJob job(4);
  for (const std::size_t i : {1, 2, 3}) job.ranks[i] = {{}, "n", i, Is::left, ""};
  job.ranks[1].state = Is::live;
  WaitFor& one = job.add(In::launch, "x", 1s, {0, 1}, {2, 3});
  EXPECT_EQ(job.sentence(),
            "x waits for 2 processes on n, which have left; 2 others are connected");
  EXPECT_EQ(job.found().hosts, Texts{"n"});
  job.ranks[2].rank = job.ranks[3].rank = 5;  // an old and a new process
  EXPECT_TRUE(job.sentence().starts_with("x waits for rank 5 on n,")) << job.sentence();
  job.ranks[3].rank.reset();
  one.waiting = {1};
  one.awaited = {3};
  EXPECT_EQ(job.sentence(),
            "x waits for a process on n (pid 3), which has left; 1 other is connected");
}

constexpr Kind kAllKinds[] = {Kind::lost,   Kind::mismatch, Kind::deadlock,
                              Kind::unsent, Kind::missing,  Kind::queued,
                              Kind::hung,   Kind::diverged, Kind::straggler};

/// Adds two ranks, and a wait-for between them, or a deviation, that has a diagnosis of this kind.
void add_case(DiagnosedJob& job, Kind kind, Duration began, const std::string& name) {
  const std::size_t at = job.ranks.size();
  for (std::size_t i = 0; i < 2; ++i) job.ranks.push_back({.rank = static_cast<Rank>(at + i)});
  if (kind >= Kind::diverged) {
    const bool late = kind == Kind::straggler;
    job.deviations.push_back({.kind = late ? Deviation::Kind::straggler : Deviation::Kind::diverged,
                              .group = name,
                              .since = kStart + began,
                              .ranks = {at},
                              .others = {at + 1}});
    return;
  }
  if (kind == Kind::deadlock) job.barrier(name, began + 1h, {at + 1}, {at});
  const bool all = kind == Kind::mismatch || kind == Kind::queued || kind == Kind::hung;
  WaitFor& one = all ? job.add(In::collective, name, began, {at, at + 1}, {})
                     : job.add(In::receive, name, began, {at}, {at + 1});
  if (kind == Kind::lost) one.lost = "is lost";
  if (kind == Kind::mismatch) one.issued = {{"a", {at}}, {"b", {at + 1}}};
  if (kind == Kind::unsent) one.unsent = true;
  if (kind == Kind::queued) one.queued = {at};
}

TEST(Diagnosis, IsOfTheFirstKindThatHoldsAndNamesTheOldestOfIt) {
  EXPECT_EQ(DiagnosedJob(4).text(), "running none [] 0: ");
  for (std::size_t first = 0; first < std::size(kAllKinds); ++first) {
    DiagnosedJob job(0);
    add_case(job, kAllKinds[first], 3s, "youngest");
    add_case(job, kAllKinds[first], 1s, "oldest");
    add_case(job, kAllKinds[first], 2s, "middle");
    for (std::size_t i = first + 1; i < std::size(kAllKinds); ++i)
      add_case(job, kAllKinds[i], 0s, "it");
    EXPECT_EQ(name_of(job.found().kind), name_of(kAllKinds[first]));
    EXPECT_NE(job.sentence().find("oldest"), std::string::npos) << job.sentence();
    EXPECT_EQ(job.found().since, kStart + 1s);
  }
}

TEST(Diagnosis, NamesALostRankBeforeALiveOneBeforeAKey) {
  DiagnosedJob job(6);
  job.ranks[5].state = Is::closed;
  job.add(In::key, "key", 1s, {0}, {});
  EXPECT_EQ(job.cause(), "[] 1");
  job.add(In::collective, "unnamed", 5s, {0, 2}, {}).unnamed = 1;
  EXPECT_EQ(job.cause(), "[] 2");
  job.barrier("live", 2s, {1}, {3, 4});
  EXPECT_EQ(job.cause(), "[3-4] 1");
  job.barrier("lost", 3s, {2}, {4, 5});
  EXPECT_EQ(job.cause(), "[5] 1");
}

TEST(Diagnosis, FollowsChainsToTheRankForWhichAllWait) {
  DiagnosedJob job(12);
  job.barrier("a", 1s, from_to(0, 3), {4});
  job.barrier("b", 2s, from_to(4, 7), {8, 9});
  EXPECT_EQ(job.cause(), "[8-9] 8");
  job.barrier("c", 3s, {8, 9}, {11});
  EXPECT_EQ(job.cause(), "[11] 10");
  EXPECT_EQ(job.found().evidence, (Texts{"barrier c: ranks [8-9] wait for rank 11",
                                         "barrier b: ranks [4-7] wait for ranks [8-9]",
                                         "barrier a: ranks [0-3] wait for rank 4"}));
}

TEST(Diagnosis, DoesNotBlameThoseWhoWait) {
  DiagnosedJob job(6);
  job.barrier("a", 1s, {0}, {1, 2, 3});
  job.barrier("b", 2s, {1, 2}, {4});
  job.barrier("c", 1s, {5}, {1});
  EXPECT_EQ(job.cause(), "[3] 1");
  EXPECT_EQ(job.found().evidence.size(), 1u) << "the others wait for rank 4";
}

TEST(Diagnosis, FindsADeadlockBehindAChain) {
  DiagnosedJob job(7);
  job.barrier("chain", 1s, {0, 1, 2}, {3});
  job.barrier("y", 5s, {3}, {4});
  job.barrier("x", 4s, {4}, {3});
  job.barrier("late", 0s, {4, 5}, {6});  // no deadlock
  EXPECT_TRUE(job.sentence().starts_with("deadlock: rank 4 waits in barrier x for rank"));
  EXPECT_EQ(job.found().since, kStart + 4s);
  EXPECT_EQ(job.cause(), "[3-4] 5");
}

TEST(Diagnosis, TakesARankOnceThatWaitsInSeveralWaitFors) {
  DiagnosedJob job(4);
  job.barrier("a", 2s, {0, 1}, {3});
  job.barrier("b", 1s, {0}, {3});
  job.barrier("c", 3s, {2}, {0});
  job.barrier("d", 4s, {2}, {0});
  EXPECT_EQ(job.cause(), "[3] 2");
  EXPECT_EQ(job.found().since, kStart + 1s);
  job.wait_fors[1].awaited = {2};  // also a deadlock of ranks 0 and 2
  EXPECT_EQ(job.cause(), "[0,2] 2");
}

TEST(Diagnosis, BlamesALostRankAlthoughItWaits) {
  DiagnosedJob job(4);
  job.ranks[2].state = Is::silent;
  job.add(In::collective, "it", 1s, from_to(0, 3), {}).queued = {0};
  EXPECT_EQ(job.text(), "stuck missing [2] 3: it waits for rank 2, which is silent; 3 ranks wait");
  job.wait_fors = {WaitFor{In::collective, "it", kStart, {0, 1, 2}, {3}}};
  EXPECT_EQ(job.cause(), "[2] 2");
  job.wait_fors[0].kind = In::barrier;
  EXPECT_EQ(job.cause(), "[3] 2") << "that rank 2 has arrived is enough";
  job.wait_fors = {WaitFor{In::barrier, "it", kStart, {0}, {2}}};
  job.barrier("b", 2s, {2}, {0});
  EXPECT_EQ(job.found().kind, Kind::missing) << "no deadlock: rank 2 does not wait any more";
  EXPECT_EQ(job.cause(), "[2] 1");
  job.barrier("c", 3s, {1}, {3});
  job.barrier("d", 4s, {3}, {1});
  EXPECT_EQ(job.cause(), "[2] 1") << "before a deadlock of others";
  job.wait_fors = {WaitFor{In::barrier, "it", kStart, {2}, {0}}};
  job.barrier("b", 1s, {0}, {1, 2});
  job.barrier("c", 2s, {1, 2}, {0});
  EXPECT_EQ(job.cause(), "[2] 2") << "before a deadlock without rank 2";
  job.ranks[2].state = Is::live;
  EXPECT_EQ(job.found().kind, Kind::deadlock);
}

}  // namespace
}  // namespace c10dd::diagnosed
