// SPDX-License-Identifier: Apache-2.0
// When runs are retired and jobs removed, and what a hello on its way changes about that.
#include "daemon/core/directory/directory_host.h"

#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

void say_goodbye(HostWorld& world, const std::shared_ptr<TestSink>& sink) {
  world.loops[0]->turn([&] { world.ask(sink, 1'000, Goodbye{}); });
  world.settle();
  sink->take();
}

std::size_t rows_of(HostWorld& world, JobNumber number) {
  std::size_t rows = 0;
  EXPECT_TRUE(world.engine->load(number, [&](const Row&) { ++rows; }));
  return rows;
}

Result<void> removed(HostWorld& world, const std::string& job) {
  std::optional<Result<void>> outcome;
  world.directory->remove(job, [&](Result<void> done) { outcome = done; });
  world.settle();
  EXPECT_TRUE(outcome);
  return *outcome;
}

TEST(DirectoryHost, RetiresARunSomeTimeAfterItsLastSession) {
  HostWorld world(2);
  world.limits.run_grace = seconds(30);
  world.open();
  const auto sink = world.join("a", 1, 0, "r");
  const JobNumber number = sink->job->number;
  EXPECT_EQ(world.counted(), 1) << "jobs with metric series";
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  world.pass(seconds(60));
  EXPECT_EQ(world.struck, Lines{}) << "while its session is there";
  say_goodbye(world, sink);
  EXPECT_GT(rows_of(world, number), 0U);
  world.pass(seconds(29));
  EXPECT_EQ(world.struck, Lines{});
  world.pass(seconds(2));
  world.settle();
  EXPECT_EQ(world.struck, Lines{"a/r retired"});
  EXPECT_EQ(world.counted(), 0);
  EXPECT_EQ(rows_of(world, number), 0U);
  const auto next = world.join("a", 1, 0, "r");
  EXPECT_GT(next->job->number, number) << "numbers are never used again";
}

TEST(DirectoryHost, AHelloOnItsWayKeepsTheRun) {
  HostWorld world(2);
  world.limits.run_grace = seconds(30);
  world.open();
  world.join("other", 8);
  const auto sink = world.join("a", 1, 0, "r");
  ASSERT_EQ(&sink->job->owner, &world.host(1));
  world.loops[0]->turn([&] { world.ask(sink, 1, Goodbye{}); });
  world.work();
  // The directory has named the job to a newer hello before it hears that the last session ended.
  const auto late = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host(0).hello(world.hello(late, "a", 2, "r")); });
  world.settle();
  EXPECT_EQ(late->take(), Lines{"1:hello ok"});
  world.pass(seconds(60));
  world.settle();
  EXPECT_EQ(world.struck, Lines{});
}

TEST(DirectoryHost, AfterARestartARunIsProbedBeforeItIsRetired) {
  HostWorld world(1);
  world.limits.run_grace = seconds(5);
  world.open();
  const auto away = world.join("kept", 1, 0, "r");
  world.loops[0]->turn([&] { world.ask(away, 1, Set{"k", "v", {}, true}); });
  const auto ended = world.join("over", 2, 0, "r");
  world.loops[0]->turn([&] { world.ask(ended, 1, Set{"k", "v", {}, false}); });
  world.settle();
  say_goodbye(world, ended);
  world.loops[0]->turn([&] { world.host().engine_lost("a disk"); });
  world.open();
  for (int i = 0; i < 14; ++i) {
    world.pass(seconds(1));
    world.settle();
  }
  EXPECT_EQ(world.struck, Lines{"over/r retired"}) << "the other has a session that may come back";
  world.join("kept", 1, 0, "r");
}

TEST(DirectoryHost, RemovesAJobThatNobodyUses) {
  HostWorld world(2);
  const auto sink = world.join("a", 1);
  const JobNumber number = sink->job->number;
  world.loops[0]->turn([&] { world.ask(sink, 1, Set{"k", "v", {}, false}); });
  world.settle();
  const Result<void> in_use = removed(world, "a");
  ASSERT_FALSE(in_use);
  EXPECT_EQ(in_use.error().detail,
            "job \"a\" is in use: 1 sessions are connected; end its processes first");
  world.loops[0]->turn([&] { world.ask(sink, 2, Set{"k", "w", {}, false}); });
  world.settle();
  sink->take();
  say_goodbye(world, sink);
  EXPECT_TRUE(removed(world, "a"));
  EXPECT_EQ(world.struck, Lines{"a/ removed"});
  EXPECT_EQ(rows_of(world, number), 0U);
  EXPECT_EQ(removed(world, "a").error().code, Code::not_found);
}

TEST(DirectoryHost, RemovesNothingWhileAClientIsConnecting) {
  HostWorld world(2);
  const auto sink = world.join("a", 1);
  say_goodbye(world, sink);
  std::optional<Result<void>> outcome;
  world.directory->remove("a", [&](Result<void> done) { outcome = done; });
  const auto late = std::make_shared<TestSink>();
  world.loops[0]->turn([&] { world.host(0).hello(world.hello(late, "a", 2)); });
  world.settle();
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().detail,
            "job \"a\" is in use: 1 sessions are connected; end its processes first");
  EXPECT_EQ(late->take(), Lines{"1:hello ok"});
}

TEST(DirectoryHost, GivesNoNumberToAJobThatAViewerNames) {
  HostWorld world(2);
  const std::size_t rows = rows_of(world, Directory::kNumber);
  EXPECT_EQ(world.observe("a", 1), Lines{"1:hello not_found"});
  EXPECT_EQ(world.detail,
            "job \"a\" does not exist, and a viewer cannot create it; connect after its first "
            "trainer");
  EXPECT_EQ(world.directory->expect("a", "r", {{}, false}).error().detail,
            "run \"r\" of job \"a\" does not exist, and a viewer cannot create it; connect after "
            "its first trainer");
  EXPECT_TRUE(world.directory->runs().empty());
  EXPECT_EQ(rows_of(world, Directory::kNumber), rows);
  const JobNumber number = world.join("a", 2)->job->number;
  EXPECT_EQ(number, 1U) << "what was refused has used no number";
  EXPECT_EQ(world.observe("a", 1), Lines{"1:hello ok"});
  EXPECT_EQ(world.directory->expect("a", "", {{}, false}).value(), number);
  EXPECT_EQ(world.observe("a", 3, "r"), Lines{"1:hello not_found"});
  EXPECT_EQ(world.directory->runs().size(), 1U);
}

TEST(DirectoryHost, SaysWhyItIsClosed) {
  HostWorld world(1);
  world.directory->lost();
  EXPECT_EQ(removed(world, "a").error().detail, "the engine is closed");
  EXPECT_EQ(world.directory->expect("a", "", {}).error().code, Code::unavailable);
  EXPECT_FALSE(world.directory->next_wake());
}

}  // namespace
}  // namespace c10dd::core
