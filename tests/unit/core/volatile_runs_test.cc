// SPDX-License-Identifier: Apache-2.0
// Runs that live only in memory: who finds them, what they write (nothing), and what ends them.
#include "daemon/core/directory/volatile_runs.h"

#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::seconds;

class VolatileRunsTest : public testing::Test {
 protected:
  /// Opens a fleeting session in a run, on loop i.
  std::shared_ptr<TestSink> enter(const std::string& run, std::uint64_t session,
                                  std::size_t i = 0) {
    auto sink = std::make_shared<TestSink>();
    world_.loops[i]->turn([&] {
      HelloRequest request = world_.hello(sink, "torch", session, run);
      request.hello.fleeting = true;
      request.hello.c10d = true;
      world_.host(i).hello(std::move(request));
    });
    world_.settle();
    return sink;
  }
  Lines said(const std::shared_ptr<TestSink>& sink, std::uint64_t sequence,
             const Request& request) {
    world_.loops[0]->turn([&] { world_.ask(sink, sequence, request); });
    return sink->take();
  }
  static Set set(const Bytes& key) { return {key, "v", {}, false}; }

  HostWorld world_{1};
};

TEST_F(VolatileRunsTest, NoRowGoesToTheEngine) {
  EXPECT_TRUE(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = enter("plain-1", 1);
  EXPECT_EQ(sink->take(), Lines{"1:hello ok"});
  EXPECT_TRUE(sink->job->is_volatile);
  EXPECT_EQ(said(sink, 1, set("k")), Lines{"1:set ok"}) << "in the turn of the request";
  EXPECT_EQ(said(sink, 2, Remove{"k"}), Lines{"1:remove ok"});
  EXPECT_TRUE(world_.engine_work.empty());
  EXPECT_EQ(world_.loops[0]->told, Lines{"served torch"}) << "nothing is loaded";
  const auto native = world_.join("torch", 2, 0, "plain-1");
  EXPECT_EQ(said(native, 1, set("k")), Lines{"1:set ok"});
  EXPECT_TRUE(world_.engine_work.empty());
  EXPECT_EQ(world_.host().jobs().unfinished(), 0U);
  const auto durable = world_.join("torch", 3, 0, "mine");
  EXPECT_EQ(said(durable, 1, set("k")), Lines{});
  EXPECT_EQ(said(sink, 3, set("k")), Lines{"1:set ok"}) << "while a batch of another is in flight";
}

TEST_F(VolatileRunsTest, AFullDiskDoesNotMatterButMemoryDoes) {
  static_cast<void>(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = enter("plain-1", 1);
  const auto durable = world_.join("torch", 3, 0, "mine");
  sink->take();
  world_.growth.watch("disk", 1'000, 100);
  world_.growth.set_free(10);
  EXPECT_EQ(said(sink, 1, set("k")), Lines{"1:set ok"});
  EXPECT_EQ(said(durable, 1, set("k")), Lines{"1:set disk_full"});
  world_.growth.memory().add_stored(std::int64_t{1} << 41);
  EXPECT_EQ(said(sink, 2, set("k")), Lines{"1:set quota_exceeded"});
}

TEST_F(VolatileRunsTest, ALostEngineDoesNotEndThem) {
  static_cast<void>(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = enter("plain-1", 1);
  const auto durable = world_.join("torch", 3, 0, "mine");
  sink->take();
  said(sink, 1, set("k"));
  world_.directory->lost();
  world_.loops[0]->turn([&] { world_.host().engine_lost("a disk"); });
  EXPECT_EQ(durable->take(), Lines{"1:ended unavailable"});
  EXPECT_EQ(said(sink, 2, Get{"k", {}}), Lines{"1:get ok"});
  EXPECT_EQ(said(sink, 3, set("l")), Lines{"1:set ok"});
  EXPECT_EQ(enter("plain-1", 2)->take(), Lines{"1:hello ok"});
  EXPECT_TRUE(world_.directory->open_volatile("torch", "plain-2", "10.0.0.1"));
  const auto next = enter("plain-2", 4);
  EXPECT_EQ(next->take(), Lines{"1:hello ok"}) << "they begin without an engine, too";
  world_.open();
  EXPECT_EQ(said(sink, 4, Get{"l", {}}), Lines{"1:get ok"});
  world_.loops[0]->turn([&] { world_.host().detach(next->job, next->attachment); });
  EXPECT_EQ(enter("plain-2", 5)->take(), Lines{"1:hello ok"}) << "it is empty, but has not ended";
}

TEST_F(VolatileRunsTest, NobodyMakesOneByNamingIt) {
  for (const std::string run : {"plain-1", "rdzv-id"}) {
    const auto sink = enter(run, 1);
    EXPECT_EQ(sink->take(), Lines{"1:hello not_found"});
    EXPECT_EQ(sink->detail, "run \"" + run +
                                "\" of job \"torch\" does not exist or has ended, and only the "
                                "daemon can create a run with such a name; choose another name");
    EXPECT_EQ(world_.directory->expect("torch", run, {}).error().code, Code::not_found);
  }
  world_.directory->lost();
  EXPECT_EQ(world_.directory->expect("torch", "plain-1", {}).error().code, Code::unavailable);
}

TEST_F(VolatileRunsTest, AnEndedRunIsReadableForAWhile) {
  static_cast<void>(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = enter("plain-1", 1);
  const JobNumber number = sink->job->number;
  EXPECT_EQ(world_.directory->expect("torch", "plain-1", {}).value(), number);
  sink->take();
  said(sink, 1, set("k"));
  world_.loops[0]->turn([&] { world_.directory->end_volatile("torch", "plain-1"); });
  EXPECT_EQ(enter("plain-1", 2)->take(), Lines{"1:hello not_found"});
  ASSERT_EQ(world_.host().jobs().reports().size(), 1U);
  EXPECT_EQ(world_.host().jobs().reports()[0].run, "plain-1");
  EXPECT_EQ(world_.host().jobs().reports()[0].stats.keys, 1U);
  EXPECT_EQ(world_.struck, Lines{});
  world_.pass(limits::kRunGrace + seconds(1));
  world_.settle();
  EXPECT_EQ(world_.struck, Lines{"torch/plain-1 retired"});
  EXPECT_EQ(sink->take(), Lines{"1:ended session_expired"});
  EXPECT_TRUE(world_.host().jobs().reports().empty());
  EXPECT_EQ(world_.counted(), 0);
  EXPECT_EQ(world_.growth.memory().stored(), 0U);
  world_.directory->end_volatile("torch", "plain-1");
}

TEST_F(VolatileRunsTest, ARunOfTheSameNameIsANewOne) {
  const JobNumber first = world_.directory->open_volatile("torch", "rdzv-id", "10.0.0.1").value();
  EXPECT_EQ(world_.directory->open_volatile("torch", "rdzv-id", "10.0.0.1").value(), first);
  const auto sink = enter("rdzv-id", 1);
  sink->take();
  said(sink, 1, set("k"));
  world_.loops[0]->turn([&] { world_.directory->end_volatile("torch", "rdzv-id"); });
  EXPECT_EQ(world_.directory->open_volatile("torch", "rdzv-id", "10.0.0.1").value(), first + 1);
  const auto second = enter("rdzv-id", 2);
  EXPECT_EQ(second->take(), Lines{"1:hello ok"});
  EXPECT_EQ(said(second, 1, Get{"k", {}}), Lines{"1:get not_found"});
  EXPECT_NE(second->job, sink->job);
  world_.pass(limits::kRunGrace + seconds(1));
  world_.settle();
  EXPECT_EQ(sink->take(), Lines{"1:ended session_expired"});
  EXPECT_EQ(said(second, 2, set("k")), Lines{"1:set ok"});
}

TEST_F(VolatileRunsTest, AResumedRunHasItsKeys) {
  const JobNumber number = world_.directory->open_volatile("torch", "plain-1", "10.0.0.1").value();
  const auto sink = enter("plain-1", 1);
  sink->take();
  said(sink, 1, set("k"));
  world_.loops[0]->turn([&] {
    world_.host().detach(sink->job, sink->attachment);
    world_.directory->end_volatile("torch", "plain-1");
  });
  world_.pass(limits::kRunGrace - seconds(1));
  EXPECT_TRUE(world_.directory->keeps_volatile("torch", "plain-1"));
  EXPECT_TRUE(world_.directory->resume_volatile("torch", "plain-1", "10.0.0.1"));
  EXPECT_FALSE(world_.directory->resume_volatile("torch", "plain-1", "10.0.0.1"));
  world_.pass(seconds(5));
  world_.settle();
  const auto next = enter("plain-1", 2);
  EXPECT_EQ(next->take(), Lines{"1:hello ok"});
  EXPECT_EQ(next->job->number, number);
  EXPECT_EQ(said(next, 1, Get{"k", {}}), Lines{"1:get ok"});
}

TEST_F(VolatileRunsTest, OneThatHasEndedGoesWhenTheMemoryIsNearlyFull) {
  static_cast<void>(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = enter("plain-1", 1);
  sink->take();
  said(sink, 1, set("k"));
  world_.loops[0]->turn([&] { world_.directory->end_volatile("torch", "plain-1"); });
  world_.growth.memory().add_stored(
      static_cast<std::int64_t>(world_.growth.memory().max_bytes() / 2));
  world_.settle();
  EXPECT_EQ(world_.struck, Lines{});
  world_.growth.memory().add_stored(
      static_cast<std::int64_t>(world_.growth.memory().max_bytes() / 2));
  world_.pass(seconds(1));
  world_.settle();
  EXPECT_EQ(world_.struck, Lines{"torch/plain-1 retired"});
}

TEST_F(VolatileRunsTest, AJobWithOneIsInUse) {
  static_cast<void>(world_.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  std::optional<Result<void>> outcome;
  world_.directory->remove("torch", [&](Result<void> done) { outcome = done; });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->error().detail,
            "job \"torch\" is in use: 1 of its runs are in memory only; end their processes first");
}

constexpr const char* kHere = "10.0.0.1";
constexpr const char* kThere = "10.0.0.2";

std::vector<std::string> names(const std::vector<Directory::NamedRun>& runs) {
  std::vector<std::string> all;
  for (const Directory::NamedRun& run : runs) all.push_back(run.run);
  return all;
}

TEST(VolatileRuns, AreBounded) {
  VolatileRuns runs({.first = VolatileRuns::kFirst + 5, .runs = 2, .grace = seconds(3)});
  EXPECT_EQ(runs.open("a", "plain-1", kHere).value(), VolatileRuns::kFirst + 5);
  EXPECT_EQ(runs.open("b", "plain-1", kThere).value(), VolatileRuns::kFirst + 6);
  EXPECT_EQ(runs.open("a", "plain-2", "10.0.0.3").error().detail,
            "too many in-memory runs: 3 with this one, limit 2; end some, or lease "
            "endpoints with a run");
  EXPECT_EQ(runs.end("a", "plain-1", TimePoint()), VolatileRuns::kFirst + 5);
  EXPECT_EQ(runs.end("a", "plain-1", TimePoint()), std::nullopt);
  EXPECT_TRUE(runs.tick(TimePoint(seconds(2))).empty());
  EXPECT_EQ(runs.next_deadline(), TimePoint(seconds(3)));
  EXPECT_EQ(names(runs.tick(TimePoint(seconds(3)))), Lines{"plain-1"});
  EXPECT_EQ(runs.open("a", "plain-2", kHere).value(), VolatileRuns::kFirst + 7);
  EXPECT_EQ(runs.live("a").size(), 1U);
  EXPECT_EQ(runs.open("", "plain-3", "10.0.0.3").error().code, Code::invalid_argument);
}

TEST(VolatileRuns, GiveTheirPlaceWhenTheyHaveEnded) {
  VolatileRuns runs({.runs = 3});
  for (const char* name : {"plain-1", "plain-2", "plain-3"}) {
    static_cast<void>(runs.open("a", name, *(name + 6) == '1' ? kThere : kHere));
  }
  runs.end("a", "plain-2", TimePoint(seconds(1)));
  runs.end("a", "plain-1", TimePoint(seconds(2)));
  EXPECT_TRUE(runs.open("a", "plain-4", kHere));
  EXPECT_EQ(runs.next_deadline(), TimePoint()) << "at the end of the turn";
  EXPECT_EQ(names(runs.tick(TimePoint(seconds(2)))), Lines{"plain-2"}) << "which has ended first";
  EXPECT_TRUE(runs.open("a", "plain-5", kThere));
  EXPECT_EQ(names(runs.tick(TimePoint(seconds(2)))), Lines{"plain-1"});
  EXPECT_FALSE(runs.open("a", "plain-6", kThere)) << "all are live";
  EXPECT_EQ(runs.next_deadline(), std::nullopt);
}

TEST(VolatileRuns, OfOneAddressTakeHalfOfThePlaces) {
  VolatileRuns runs({.runs = 4});
  EXPECT_TRUE(runs.open("a", "plain-1", kHere));
  EXPECT_TRUE(runs.open("b", "plain-1", kHere));
  EXPECT_EQ(
      runs.open("c", "plain-1", kHere).error().detail,
      "too many in-memory runs from 10.0.0.1: 3 with this one, limit 2 (half of all); end some, "
      "or lease endpoints with a run");
  EXPECT_TRUE(runs.open("b", "plain-1", kHere)) << "it is open";
  EXPECT_TRUE(runs.open("c", "plain-1", kThere));
  runs.end("a", "plain-1", TimePoint());
  EXPECT_TRUE(runs.open("d", "plain-1", kHere));
}

TEST(VolatileRuns, ThatHaveEndedAreFewAndSmall) {
  VolatileRuns runs({.ended = 3, .ended_bytes = 100});
  std::map<std::string, JobNumber> numbers;
  const auto end = [&](const std::string& run, std::uint64_t bytes) {
    numbers[run] = runs.open("a", run, kHere).value();
    runs.end("a", run, TimePoint(seconds(numbers.size())));
    runs.weigh(numbers[run], bytes);
    return names(runs.tick(TimePoint(seconds(5))));
  };
  EXPECT_EQ(end("plain-1", 10), Lines{});
  EXPECT_EQ(end("plain-2", 60), Lines{});
  EXPECT_EQ(end("plain-3", 1), Lines{});
  EXPECT_EQ(end("plain-4", 39), Lines{"plain-1"}) << "four are too many";
  EXPECT_EQ(end("plain-5", 1000), (Lines{"plain-2", "plain-3", "plain-4"})) << "the newest stays";
  runs.weigh(numbers["plain-1"], 1000);
  runs.make_room();
  runs.make_room();
  EXPECT_EQ(names(runs.tick(TimePoint(seconds(5)))), Lines{"plain-5"});
  EXPECT_EQ(end("plain-6", 100), Lines{});
  EXPECT_EQ(end("plain-7", 0), Lines{});
}

TEST(VolatileRuns, AreResumedUnderTheirNumber) {
  VolatileRuns runs({.runs = 2, .grace = seconds(3)});
  const JobNumber first = runs.open("a", "plain-1", kHere).value();
  EXPECT_EQ(runs.resume("a", "plain-1", kHere), std::nullopt) << "it is live";
  runs.end("a", "plain-1", TimePoint());
  EXPECT_TRUE(runs.is_kept("a", "plain-1"));
  EXPECT_EQ(runs.resume("a", "plain-2", kHere), std::nullopt);
  EXPECT_EQ(runs.resume("a", "plain-1", kThere), first);
  EXPECT_FALSE(runs.is_kept("a", "plain-1"));
  EXPECT_EQ(runs.find("a", "plain-1"), first);
  EXPECT_TRUE(runs.tick(TimePoint(seconds(9))).empty());
  EXPECT_TRUE(runs.open("a", "plain-2", kHere)) << "it counts for the other address now";
  runs.end("a", "plain-1", TimePoint());
  runs.tick(TimePoint(seconds(3)));
  EXPECT_EQ(runs.resume("a", "plain-1", kHere), std::nullopt) << "it is retired";
  EXPECT_EQ(runs.next_deadline(), std::nullopt);
}

TEST(VolatileRunsOnLoops, AreFoundOnTheLoopOfTheirNumber) {
  HostWorld world(2);
  static_cast<void>(world.directory->open_volatile("torch", "plain-1", "10.0.0.1"));
  const auto sink = world.join("torch", 1, 0, "plain-1");
  ASSERT_EQ(&sink->job->owner, &world.host(1));
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  EXPECT_EQ(sink->take(), Lines{"1:set ok"});
  world.loops[0]->turn([&] { world.directory->end_volatile("torch", "plain-1"); });
  world.settle();
  const auto late = std::make_shared<TestSink>();
  world.loops[1]->turn([&] { world.host(1).hello(world.hello(late, "torch", 2, "plain-1")); });
  world.settle();
  EXPECT_EQ(late->take(), Lines{"1:hello not_found"});
}

}  // namespace
}  // namespace c10dd::core
