// SPDX-License-Identifier: Apache-2.0
// Each oracle accepts a run that kept its promise and refuses one that broke it. What the judges of
// histories find in calls alone, tests/history tests. Also the file that keeps the seeds of planted
// faults.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/row_key.h"
#include "daemon/core/sessions/sessions.h"
#include "tests/sim/plants.h"
#include "tests/sim/story.h"
#include "tests/sim/workload.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::sim {
namespace {

TEST(Oracles, AGoodRunPassesAllOfThem) {
  Story run;
  run.set("s0", "a", 10);
  run.set("s0", "b", 20);
  run.call(Get{"s0", {}}, 30, 31, told(Value{"b", 2}));
  run.call(Remove{"s0"}, 40, 49, told(Removed{true}));
  run.durable({{Row::Kind::erase, "ks0", {}}}, 41);
  run.call(
      Watch{"s", true, 1, 0, {}}, 50, 51,
      told(Changes{{{1, false, "s0", "a"}, {2, false, "s0", "b"}, {3, true, "s0", ""}}, 4, 0}));
  const OptionalViolation bad = judge(run.records);
  EXPECT_FALSE(bad) << bad->oracle << ": " << bad->text;
}

TEST(Oracles, KeysMustBeLinearizable) {
  Story run;
  run.set("s0", "a", 10);
  run.set("s0", "b", 20);
  run.call(Get{"s0", {}}, 30, 31, told(Value{"a", 1}));
  EXPECT_EQ(oracle(judge_keys(run.records)), "linearizable");
  EXPECT_EQ(oracle(judge_reads(run.records)), "reads");
}

TEST(Oracles, WhatIsAcknowledgedMustBeDurable) {
  Story run;
  run.call(Set{"s0", "a", {}, false}, 10, 19, told(Written{1}));
  EXPECT_EQ(oracle(judge_log(run.records)), "acknowledged");
}

TEST(Oracles, NothingIsAppliedTwice) {
  Story run;
  run.call(Add{"n0", 1}, 10, 19, told(Counter{1}));
  run.durable({Story::put("n0", "1", 1)}, 11);
  run.durable({Story::put("n0", "2", 2)}, 12);
  EXPECT_EQ(oracle(judge_log(run.records)), "exactly_once");
}

TEST(Oracles, WhatWasRefusedIsNotApplied) {
  Story run;
  run.call(Add{"n0", 1}, 10, 19, Reply(failure(Code::wrong_type, "no number")));
  run.durable({Story::put("n0", "1", 1)}, 11);
  EXPECT_EQ(oracle(judge_log(run.records)), "definite_errors");
}

TEST(Oracles, RevisionsFollowTime) {
  Story run;
  run.call(Set{"s0", "a", {}, false}, 10, 12, told(Written{2}));
  run.call(Set{"s1", "b", {}, false}, 20, 29, told(Written{1}));
  run.durable({Story::put("s1", "b", 1)}, 21);
  Step late;
  late.revision = 2;
  late.session = kSession;
  late.sequence = 1;
  late.rows = {Story::put("s0", "a", 2)};
  run.records.did(1, 1, late);
  run.records.taken({1, 1, 1, 2, {}}, 22);
  EXPECT_EQ(oracle(judge_log(run.records)), "real_time");
}

TEST(Oracles, AnswersAreThoseOfTheModel) {
  Story run;
  run.call(Append{"s0", "abc"}, 10, 19, told(Appended{4}));
  run.durable({Story::put("s0", "abc", 1)}, 11);
  EXPECT_EQ(oracle(judge_log(run.records)), "model");
}

TEST(Oracles, RowsAreThoseOfTheModel) {
  Story run;
  run.call(MultiSet{{"m0", "m1"}, {"a", "b"}}, 10, 19, told(Written{1}));
  run.durable({Story::put("m0", "a", 1)}, 11);
  EXPECT_EQ(oracle(judge_log(run.records)), "model");
}

TEST(Oracles, ManyKeysAreReadAtOneMoment) {
  Story run;
  run.set("m0", "a", 10);
  run.set("m1", "b", 20);
  run.set("m0", "c", 30);
  run.call(MultiGet{{"m0", "m1"}, {}}, 5, 50, told(Values{{"a", "b"}, {1, 2}}));
  EXPECT_EQ(oracle(judge_reads(run.records)), "fine");
  run.set("m1", "d", 60);
  run.call(MultiGet{{"m0", "m1"}, {}}, 5, 80, told(Values{{"a", "d"}, {1, 4}}));
  EXPECT_EQ(oracle(judge_reads(run.records)), "reads");
}

TEST(Oracles, NobodySeesWhatIsNotDurable) {
  Story run;
  run.call(Set{"s0", "a", {}, false}, 10, 0, std::nullopt);
  run.durable({Story::put("s0", "a", 1)}, 50);
  run.call(Get{"s0", {}}, 20, 30, told(Value{"a", 1}));
  EXPECT_EQ(oracle(judge_reads(run.records)), "reads");
}

TEST(Oracles, AWaiterIsWoken) {
  Story run;
  run.set("s0", "a", 10);
  run.call(Wait{{"s0"}, {}}, 30, 40, Reply(failure(Code::timed_out, "1 of 1 keys missing")));
  EXPECT_EQ(oracle(judge_reads(run.records)), "reads");
}

TEST(Oracles, PagesAndNumbersAreThoseOfTheLog) {
  const auto judged = [](Request request, Reply reply) {
    Story run;
    run.set("n0", "5", 10);
    run.call(std::move(request), 20, 29, std::move(reply));
    return oracle(judge_reads(run.records));
  };
  const ReadValues read{{"n1", "n0", "n1"}, 1};
  EXPECT_EQ(judged(read, told(ValuePage{{"5", ""}, 3})), "fine");
  EXPECT_EQ(judged(read, told(ValuePage{{"5", "5"}, 3})), "reads");
  EXPECT_EQ(judged(read, told(ValuePage{{"5"}, 2})), "reads") << "there was room for all";
  const Reply late(failure(Code::timed_out, "counter"));
  EXPECT_EQ(judged(WaitCounter{"n0", 5, {}}, told(Done{})), "fine");
  EXPECT_EQ(judged(WaitCounter{"n0", 6, {}}, told(Done{})), "reads");
  EXPECT_EQ(judged(WaitCounter{"n0", 5, {}}, late), "reads");
  EXPECT_EQ(judged(WaitCounter{"n1", -5, {}}, late), "fine") << "a missing key has no number";
}

TEST(Oracles, AWaitForEachKeySeesThemAtAnyTime) {
  const auto judged = [](bool each, std::uint64_t from) {
    Story run;
    run.set("s0", "a", 10);
    run.call(Remove{"s0"}, 20, 29, told(Removed{true}));
    run.durable({{Row::Kind::erase, "ks0", {}}}, 21);
    run.set("s1", "b", 30);
    run.call(Wait{{"s0", "s1"}, {}, each}, from, 50, told(Done{}));
    return oracle(judge_reads(run.records));
  };
  EXPECT_EQ(judged(true, 5), "fine");
  EXPECT_EQ(judged(false, 5), "reads") << "they were never there together";
  EXPECT_EQ(judged(true, 35), "reads") << "the first was gone before";
}

TEST(Oracles, AWatchTellsEverythingOnce) {
  const Change first{1, false, "s0", "a"};
  const Change second{2, false, "s0", "b"};
  const auto judged = [](std::vector<Change> changes, Revision next) {
    Story run;
    run.set("s0", "a", 10);
    run.set("s0", "b", 20);
    run.call(Watch{"s0", false, 1, 0, {}}, 30, 40, told(Changes{std::move(changes), next, 0}));
    return oracle(judge_watches(run.records));
  };
  EXPECT_EQ(judged({first, second}, 3), "fine");
  EXPECT_EQ(judged({second}, 3), "watches") << "a gap";
  EXPECT_EQ(judged({first, second}, 4), "watches") << "ahead of what is durable";
}

TEST(Oracles, AnItemIsPoppedByOne) {
  Story run;
  run.call(QueuePush{"q0", "x"}, 10, 19, told(Counted{1}));
  run.durable({{Row::Kind::put, "r", {}}}, 11);
  run.call(QueuePop{"q0", {}}, 20, 29, told(Popped{"x"}));
  EXPECT_EQ(oracle(judge_queues(run.records)), "fine");
  run.call(QueuePop{"q0", {}}, 30, 39, told(Popped{"x"}));
  EXPECT_EQ(oracle(judge_queues(run.records)), "queues");
  run.records.dead_clients.insert(1);  // then its item went back
  EXPECT_EQ(oracle(judge_queues(run.records)), "fine");
}

TEST(Oracles, NoItemIsLostOrInvented) {
  Story run;
  run.call(QueuePush{"q0", "x"}, 10, 19, told(Counted{1}));
  run.durable({{Row::Kind::put, "r", {}}}, 11);
  run.records.drained = true;
  EXPECT_EQ(oracle(judge_queues(run.records)), "queues");
  Story other;
  other.call(QueuePop{"q0", {}}, 20, 29, told(Popped{"x"}));
  EXPECT_EQ(oracle(judge_queues(other.records)), "queues");
}

TEST(Oracles, LengthsOfQueuesAreThoseOfTheLog) {
  const auto judged = [](std::uint64_t pushed, bool claimed, const Request& ask, ReplyBody reply) {
    Story run;
    run.call(QueuePush{"q0", "x"}, 10, 19, told(Counted{pushed}));
    run.durable({{Row::Kind::put, core::RowKey('q').text("q0").number(1).number(0).take(), {}}},
                11);
    if (claimed) {
      const core::Delivery delivery{"q0", 1, 0, 0, 2};
      run.call(QueuePop{"q0", {}}, 20, 29, told(Popped{"x"}));
      run.durable({{Row::Kind::put, "c", wire::encode(delivery)}}, 21);
    }
    run.call(ask, 30, 39, told(std::move(reply)));
    return std::pair(oracle(judge_reads(run.records)), oracle(judge_log(run.records)));
  };
  const auto both = [](const char* reads, const char* log) {
    return std::pair<std::string, std::string>(reads, log);
  };
  const QueueLength length{"q0"};
  EXPECT_EQ(judged(1, false, length, Counted{1}), both("fine", "fine"));
  EXPECT_EQ(judged(1, true, length, Counted{0}), both("fine", "fine"));
  EXPECT_EQ(judged(1, true, length, Counted{1}), both("reads", "fine")) << "it is claimed";
  EXPECT_EQ(judged(2, false, length, Counted{1}), both("fine", "model")) << "it was the first";
  EXPECT_EQ(judged(1, false, Check{{"q0"}}, Checked{true}), both("fine", "fine"));
  EXPECT_EQ(judged(1, false, Check{{"q0"}}, Checked{false}), both("reads", "fine"));
  EXPECT_EQ(judged(1, true, Wait{{"q0"}, {}}, Done{}), both("reads", "fine"));
}

TEST(Oracles, LivesOfKeysAreThoseOfTheModel) {
  const auto judged = [](Duration ttl) {
    Story run;
    run.call(Set{"t0", "a", std::chrono::seconds(30), false}, 10, 19, told(Written{1}));
    run.durable({Story::put("t0", "a", 1, std::chrono::seconds(30))}, 11);
    run.call(Append{"t0", "b"}, 20, 29, told(Appended{2}));
    run.durable({Story::put("t0", "ab", 2, ttl)}, 21);
    return oracle(judge_log(run.records));
  };
  EXPECT_EQ(judged(std::chrono::seconds(30)), "fine");
  EXPECT_EQ(judged({}), "model") << "an append leaves the life as it is";
}

TEST(Oracles, ABarrierWaitsForAll) {
  Story run;
  const auto barrier = [](Rank rank) { return Barrier{"team", 0, 0, rank, 2, {}}; };
  run.call(barrier(0), 10, 20, told(Done{}));
  EXPECT_EQ(oracle(judge_barriers(run.records)), "barriers");
  run.call(barrier(1), 30, 40, told(Done{}));
  EXPECT_EQ(oracle(judge_barriers(run.records)), "barriers");
  run.records.ops[0].answered = 35;
  EXPECT_EQ(oracle(judge_barriers(run.records)), "fine");
  run.call(barrier(0), 50, 60, Reply(failure(Code::timed_out, "1 of 2 ranks missing")));
  EXPECT_EQ(oracle(judge_barriers(run.records)), "barriers");
}

TEST(Oracles, AllRanksAreToldThatTheyDisagree) {
  const auto judged = [](bool all) {
    Story run;
    Failure reason = failure(Code::size_mismatch, "the ranks disagree");
    reason.recorded = all;
    run.call(Barrier{"team", 0, 0, 0, 2, {}}, 10, 40, Reply(reason));
    run.call(Barrier{"team", 0, 0, 1, 3, {}}, 20, 30, Reply(reason));
    return oracle(judge_barriers(run.records));
  };
  EXPECT_EQ(judged(true), "fine");
  EXPECT_EQ(judged(false), "barriers");
}

TEST(Oracles, AnExchangeBringsTheRightParts) {
  const auto judged = [](const std::vector<Bytes>& parts) {
    Story run;
    Bytes list;
    wire::Writer(list).put(parts);
    const auto owner = std::make_shared<const Bytes>(list);
    run.call(Exchange{"team", 0, 0, 0, 1, Shape::all, 0, {exchange_part(0, 0, 0, 0, 0)}, {}, 0}, 10,
             20, told(Exchanged{0, list.size(), {owner, 0, list.size()}}));
    return oracle(judge_barriers(run.records));
  };
  EXPECT_EQ(judged({exchange_part(0, 0, 0, 0, 0)}), "fine");
  EXPECT_EQ(judged({exchange_part(0, 0, 0, 1, 0)}), "barriers");
  EXPECT_EQ(judged({}), "barriers");
}

TEST(Oracles, KeysLiveAsLongAsTheyShould) {
  Story run;
  run.call(Set{"t0", "a", std::chrono::seconds(30), false}, 10, 19, told(Written{1}));
  run.durable({Story::put("t0", "a", 1, std::chrono::seconds(30))}, 10);
  Story early = run;
  early.durable({{Row::Kind::erase, "kt0", {}}}, 30, false);
  EXPECT_EQ(oracle(judge_lives(early.records)), "lives");
  Story late = run;
  late.durable({{Row::Kind::erase, "kt0", {}}}, 45, false);
  EXPECT_EQ(oracle(judge_lives(late.records)), "fine");
  run.records.drained = true;  // and the key is still there
  EXPECT_EQ(oracle(judge_lives(run.records)), "lives");
}

Row replaced_row(Revision revision) {
  return {Row::Kind::put, core::RowKey('x').number(kSession.high).number(kSession.low).take(),
          wire::encode(core::EndedRow{revision, true})};
}
TimePoint second(std::int64_t n) { return TimePoint(std::chrono::seconds(n)); }

TEST(Oracles, WhoseRankIsTakenWasGoneForLongEnough) {
  const auto judged = [](std::int64_t loaded, std::int64_t lost) {
    Story run;
    run.records.loaded_at["job"] = {second(1), second(loaded)};
    run.records.sessions[kSession].presence = {{second(2), true}, {second(lost), false}};
    run.durable({replaced_row(1)}, 20, false);
    return oracle(judge_launches(run.records));
  };
  EXPECT_EQ(judged(1, 17), "fine");
  EXPECT_EQ(judged(1, 19), "launches");
  EXPECT_EQ(judged(9, 8), "fine");
  EXPECT_EQ(judged(12, 8), "launches") << "it had no time to come back after the restart";
}

TEST(Oracles, WhoseRankIsTakenDoesNothingMore) {
  Story run;
  run.records.loaded_at["job"] = {second(1)};
  run.records.sessions[kSession].presence = {{second(2), true}, {second(10), false}};
  run.durable({replaced_row(1)}, 20, false);
  EXPECT_EQ(oracle(judge_launches(run.records)), "fine");
  run.call(Get{"s0", {}}, 30, 39, told(Value{"a", 1}));
  EXPECT_EQ(oracle(judge_launches(run.records)), "launches");
}

TEST(Oracles, NoLaunchFailsAsTheOneBeforeDid) {
  const auto judged = [](bool arrived_is_here) {
    Story run;
    const SessionId before{8, 8};
    Failure reason = failure(Code::timed_out, "1 of 2 ranks missing");
    reason.recorded = true;
    const core::BarrierOutcome outcome{{before, {}}, Shape::all, 0, 1, reason};
    run.call(Barrier{"team", 0, 0, 0, 2, {}}, 5, 9, Reply(reason)).launch = 1;
    run.records.ops.back().client = 2;
    run.records.sessions[before].client = 2;
    run.records.sessions[before].presence = {{second(1), true}, {second(12), arrived_is_here}};
    run.durable({{Row::Kind::put, core::RowKey('o').take(), wire::encode(outcome)}}, 10, false);
    Op& late = run.call(Barrier{"team", 0, 0, 1, 2, {}}, 30, 39, Reply(reason));
    late.launch = 2;
    late.invoked_at = second(30);
    late.answered_at = second(39);
    return oracle(judge_launches(run.records));
  };
  EXPECT_EQ(judged(true), "fine");
  EXPECT_EQ(judged(false), "launches");
}

TEST(Oracles, ErrorsHaveReasons) {
  Story run;
  run.call(Set{"s0", "a", {}, false}, 10, 19, Reply(failure(Code::outcome_unknown, "")));
  EXPECT_EQ(oracle(judge_errors(run.records)), "errors");
  run.records.sessions[kSession].ended = true;
  EXPECT_EQ(oracle(judge_errors(run.records)), "fine");
  run.call(Get{"s0", {}}, 20, 29, Reply(failure(Code::internal, "")));
  EXPECT_EQ(oracle(judge_errors(run.records)), "errors");
}

class PlantSeedsFile : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  /// The text of the failure to read the file.
  std::string failure() const {
    const Result<PlantSeeds> read = read_plant_seeds(path_);
    return read ? "none" : read.error().detail;
  }

  TemporaryDirectory home_;
  const std::string path_ = home_.path() + "/seeds";
};

TEST_F(PlantSeedsFile, ReadsWhatWasWritten) {
  const PlantSeeds seeds{{"below_min", 1}, {"claim_lost", 4'000}};
  ASSERT_TRUE(write_plant_seeds(path_, seeds));
  const Result<PlantSeeds> read = read_plant_seeds(path_);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(*read, seeds);
}

TEST_F(PlantSeedsFile, NamesTheLineThatIsWrong) {
  for (const char* line : {"below_min", "below_min 0", "below_min x", "below_min  7",
                           "below_min 7 ", "below_min -7", "below_min 18446744073709551616", " "}) {
    write("# a comment\n\nclaim_lost 4\n" + std::string(line) + "\n");
    EXPECT_EQ(failure(), path_ + ":4: \"" + line +
                             "\" is not \"PLANT SEED\" with one space and a seed above 0; correct "
                             "the line, or remove it to search again");
  }
}

TEST_F(PlantSeedsFile, RefusesAPlantThatIsUnknownOrThereTwice) {
  write("rain 7\n");
  EXPECT_NE(failure().find(":1: no plant has the name \"rain\""), std::string::npos) << failure();
  write("below_min 7\nbelow_min 8\n");
  EXPECT_NE(failure().find(":2: below_min has a second seed"), std::string::npos) << failure();
}

TEST_F(PlantSeedsFile, FailsWithoutTheFileOrItsFolder) {
  EXPECT_NE(failure().find("cannot be read: No such file"), std::string::npos) << failure();
  EXPECT_FALSE(write_plant_seeds(home_.path() + "/none/seeds", {}));
}

}  // namespace
}  // namespace c10dd::sim
