// SPDX-License-Identifier: Apache-2.0
// Sessions and principals: whose a session is, also after a restart, and that a session that may
// only read changes nothing but itself.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/wording.h"
#include "tests/unit/core/host_world.h"
#include "tests/unit/core/job_run.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

// ---- whose a session is ------------------------------------------------------------------------

class OwnersTest : public testing::Test {
 protected:
  /// Somebody says hello for session 5 of job "a". Returns what came of it.
  Lines hello(const std::shared_ptr<TestSink>& sink, const std::string& principal,
              Access access = Access::join) {
    HelloRequest request = world_.hello(sink, "a", 5);
    request.connection = ++connections_;
    request.caller = {principal, access, {}};
    world_.loops[0]->turn([&] { world_.host().hello(std::move(request)); });
    world_.settle();
    return sink->take();
  }
  Lines ask(const std::shared_ptr<TestSink>& sink, const Request& request) {
    world_.loops[0]->turn([&] { world_.ask(sink, ++sequence_, request); });
    world_.settle();
    return sink->take();
  }
  void restart() {
    world_.loops[0]->turn([&] { world_.host().engine_lost("a disk"); });
    world_.open();
  }
  static std::shared_ptr<TestSink> sink() { return std::make_shared<TestSink>(); }

  const Lines ok_ = {"1:hello ok"};
  const Lines refused_ = {"1:hello permission_denied"};
  HostWorld world_{1};
  std::uint64_t connections_ = 0;
  std::uint64_t sequence_ = 0;
};

TEST_F(OwnersTest, AnotherPrincipalDoesNotTakeASessionOver) {
  const auto alice = sink();
  ASSERT_EQ(hello(alice, "alice"), ok_);
  for (const auto& [who, access] :
       {std::pair("eve", Access::observe), {"bob", Access::join}, {"root", Access::admin}}) {
    const auto other = sink();
    EXPECT_EQ(hello(other, who, access), refused_);
    EXPECT_EQ(other->detail, format("hello: the session is not one of \"{}\"; choose another "
                                    "session ID",
                                    who));
    EXPECT_EQ(ask(alice, Set{.key = "k", .value = who}), Lines{"1:set ok"}) << "it goes on";
  }
  const auto again = sink();
  EXPECT_EQ(hello(again, "alice"), ok_);
  EXPECT_EQ(alice->take(), Lines{"1:ended session_superseded"});
  EXPECT_EQ(ask(again, Get{.key = "k"}), Lines{"1:get ok"});
}

TEST_F(OwnersTest, ARefusedHelloChangesNothingOfASession) {
  const auto alice = sink();
  ASSERT_EQ(hello(alice, "alice"), ok_);
  ASSERT_EQ(ask(alice, Get{.key = "k", .timeout = seconds(100)}), Lines{}) << "it waits";
  EXPECT_EQ(hello(sink(), "bob"), refused_);
  const auto bob = world_.join("a", 6);
  ask(bob, Set{.key = "k", .value = "v"});
  EXPECT_EQ(alice->take(), Lines{"1:get ok"});
}

TEST_F(OwnersTest, ASessionHasItsOwnerAfterARestart) {
  const auto alice = sink();
  ASSERT_EQ(hello(alice, "alice"), ok_);
  // An arrival is kept by a row of its own, and so is no reply.
  ask(alice, Barrier{.name = "b", .rank = 0, .world_size = 2, .timeout = seconds(100)});
  restart();
  EXPECT_EQ(hello(sink(), "bob"), refused_);
  EXPECT_EQ(hello(sink(), "eve", Access::observe), refused_);
  EXPECT_EQ(hello(sink(), "alice"), ok_);
}

TEST_F(OwnersTest, ASessionWithoutAnOwnerBelongsToTheNextWhoMayWrite) {
  const auto before = sink();
  ASSERT_EQ(hello(before, ""), ok_) << "without authentication there is no principal";
  ask(before, Set{.key = "k", .value = "v"});
  restart();
  EXPECT_EQ(hello(sink(), "eve", Access::observe), refused_);
  const auto alice = sink();
  EXPECT_EQ(hello(alice, "alice"), ok_);
  EXPECT_EQ(hello(sink(), "bob"), refused_);
  restart();
  EXPECT_EQ(hello(sink(), "bob"), refused_) << "its row has the owner by now";
  EXPECT_EQ(hello(sink(), ""), ok_) << "without authentication";
  EXPECT_EQ(hello(sink(), "bob"), refused_) << "it still has its owner";
}

TEST_F(OwnersTest, AFleetingSessionIsNotEndedByAHelloForIt) {
  const auto stock = sink();
  HelloRequest request = world_.hello(stock, "a", 5);
  request.hello.fleeting = true;
  world_.loops[0]->turn([&] { world_.host().hello(std::move(request)); });
  world_.settle();
  ASSERT_EQ(stock->take(), ok_);
  EXPECT_EQ(hello(sink(), ""), Lines{"1:hello session_expired"});
  EXPECT_EQ(ask(stock, Set{.key = "k", .value = "v"}), Lines{"1:set ok"});
}

TEST(SessionRows, ARowOfAnEarlierBuildHasNoOwner) {
  Bytes value;
  wire::Writer(value).put(Duration(0));
  wire::Writer(value).put(Revision(3));
  const Bytes key = RowKey('s').number(1).number(5).take();
  Sessions sessions{Quotas{}};
  ASSERT_TRUE(sessions.restore({Row::Kind::put, key, value}));
  ASSERT_TRUE(sessions.drop_ended());
  sessions.resume(TimePoint());
  const Origin eve{
      .session = {1, 5}, .principal = std::make_shared<const std::string>("eve"), .observes = true};
  EXPECT_FALSE(sessions.check_owner(eve));
  const Origin alice{.session = {1, 5}, .principal = std::make_shared<const std::string>("alice")};
  EXPECT_TRUE(sessions.check_owner(alice));
}

// ---- viewers -----------------------------------------------------------------------------------

/// A job in which the same happens with and without sessions that may only read.
class Watched : public JobRun {
 public:
  explicit Watched(bool watched) : watched_(watched) {}
  void TestBody() override {}

  using JobRun::ask;
  using JobRun::barrier;
  using JobRun::drop;
  using JobRun::job_;
  using JobRun::now_;
  using JobRun::open;
  using JobRun::open_stock;
  using JobRun::pass;
  using JobRun::told_;

  /// Opens session 50 + n, which says of itself what session n does, and asks what it may.
  void watch(std::uint64_t n) {
    if (!watched_) return;
    Hello hello = hello_of(n);
    hello.session = id(50 + n);
    hello.c10d = true;
    hello.labels["world_size"] = "4096";
    observe(n, hello);
    observe(n, WaitCounter{.key = "count", .at_least = 999, .timeout = seconds(1'000)});
    observe(n, Wait{.keys = {"never", "worker/ready/9"}, .timeout = seconds(1'000)});
    observe(n, Get{.key = "/absent", .timeout = seconds(3)});
    observe(n, Wait{.keys = {"items"}, .timeout = seconds(1'000)});
  }
  void unwatch(std::uint64_t n) {
    if (watched_) job_.disconnect(id(50 + n), now_);
  }

  /// Returns what the job tells of itself.
  std::string told() const {
    const JobView view = job_.view(now_);
    std::string all =
        format("{} {} ranks={} size={} waits={} sessions={},{} empty={}\n", state(), sentence(),
               fold(diagnosis().ranks), view.world_size.value_or(0), view.waits.size(),
               job_.stats().sessions, job_.stats().sessions_known, job_.empty());
    for (const std::string& one : told_) all += one + "\n";
    return all;
  }

 private:
  void observe(std::uint64_t n, const Request& request) {
    const Origin from{.session = id(50 + n),
                      .connection = 50 + n,
                      .principal = std::make_shared<const std::string>("eve"),
                      .observes = true};
    job_.apply(from, {.sequence = ++observed_, .acked_below = 0}, request, now_);
  }

  const bool watched_;
  std::uint64_t observed_ = 0;
};

/// Returns what jobs tell in which `story` happens, without and with viewers.
template <class Story>
std::pair<std::string, std::string> both(Story&& story) {
  std::string told[2];
  for (const bool watched : {false, true}) {
    Watched job(watched);
    told[watched ? 1 : 0] = story(job);
    EXPECT_FALSE(job.job_.audit()) << *job.job_.audit();
  }
  return {told[0], told[1]};
}

TEST(Viewers, HideNoDeathOfAStockRank) {
  const auto [without, with] = both([](Watched& job) {
    job.open_stock(1);
    job.open_stock(2);
    job.ask(1, Set{.key = "rank_0", .value = "a"});
    job.ask(2, Set{.key = "rank_1", .value = "b"});
    job.watch(2);
    job.ask(1, Get{.key = "from_1", .timeout = seconds(600)});
    job.pass(seconds(3), {1, 2});
    job.drop(2);
    job.watch(2);
    job.pass(seconds(10), {1});
    return job.told();
  });
  EXPECT_EQ(without, with);
  EXPECT_NE(without.find("host-2"), std::string::npos) << without;
}

TEST(Viewers, ChangeNoDiagnosisOfABarrier) {
  const auto [without, with] = both([](Watched& job) {
    for (const std::uint64_t n : {1, 2, 3}) job.open(n);
    for (const std::uint64_t n : {1, 2, 3}) job.watch(n);
    job.ask(1, job.barrier("step", 0, 3));
    job.ask(2, job.barrier("step", 1, 3));
    job.pass(seconds(4), {1, 2, 51, 52, 53});
    std::string told = job.told();
    job.drop(3);
    job.pass(seconds(4), {1, 2, 51, 52, 53});
    return told + job.told();
  });
  EXPECT_EQ(without, with);
  EXPECT_NE(without.find("host-3"), std::string::npos) << without;
}

TEST(Viewers, DoNotKeepTheRanksThatHaveLeft) {
  const auto [without, with] = both([](Watched& job) {
    for (const std::uint64_t n : {1, 2}) job.open(n);
    job.watch(1);
    for (const std::uint64_t n : {1, 2}) job.ask(n, Goodbye{});
    const std::string over = job.told();
    job.open(3, 0);  // the next launch
    job.ask(3, job.barrier("step", 0, 2));
    job.pass(seconds(4), {3});
    return over + job.told();
  });
  EXPECT_EQ(without, with);
  EXPECT_NE(without.find("empty=true"), std::string::npos) << without;
}

TEST(Viewers, GetNoItemOfAQueue) {
  const auto [without, with] = both([](Watched& job) {
    job.open(1);
    job.watch(1);
    job.ask(1, QueuePush{.key = "items", .value = "v"});
    std::string got = "waits";
    for (const OutgoingReply& reply :
         job.ask(1, QueuePop{.key = "items", .timeout = seconds(5)}).replies) {
      if (reply.op == QueuePop::op.code && reply.result) got = "popped";
    }
    return got;
  });
  EXPECT_EQ(without, "popped");
  EXPECT_EQ(with, "popped");
}

TEST(Viewers, DoNotKeepARunThatHasEnded) {
  for (const std::size_t loops : {1, 2}) {
    HostWorld world(loops);
    world.limits.run_grace = seconds(30);
    world.open();
    world.join("other", 8);  // on two loops, the job is not that of the first
    const auto trainer = world.join("a", 1, 0, "r");
    EXPECT_EQ(world.observe("a", 2, "r"), Lines{"1:hello ok"});
    const auto viewer = std::make_shared<TestSink>();
    HelloRequest request = world.hello(viewer, "a", 3, "r");
    request.caller = {"eve", Access::observe, {}};
    world.loops[0]->turn([&] { world.host().hello(std::move(request)); });
    world.settle();
    EXPECT_EQ(viewer->take(), Lines{"1:hello ok"});
    world.loops[0]->turn([&] { world.ask(trainer, 1, Goodbye{}); });
    world.settle();
    for (std::uint64_t n = 0; n < 4; ++n) {
      world.pass(seconds(7));
      world.settle();
      EXPECT_EQ(world.observe("a", 10 + n, "r"), Lines{"1:hello ok"}) << "it can still be read";
    }
    world.pass(seconds(3));
    world.settle();
    EXPECT_EQ(world.struck, Lines{"a/r retired"}) << loops;
    EXPECT_EQ(viewer->take(), Lines{"1:ended session_expired"});
    EXPECT_EQ(world.observe("a", 20, "r"), Lines{"1:hello not_found"});
    EXPECT_GT(world.join("a", 21, 0, "r")->job->number, trainer->job->number);
  }
}

TEST(Viewers, DoNotKeepAJobFromItsRemoval) {
  HostWorld world(1);
  const auto trainer = world.join("a", 1);
  EXPECT_EQ(world.observe("a", 2), Lines{"1:hello ok"});
  world.loops[0]->turn([&] { world.ask(trainer, 1, Goodbye{}); });
  world.settle();
  bool removed = false;
  world.directory->remove("a", [&](const Result<void>& done) { removed = done.has_value(); });
  world.settle();
  EXPECT_TRUE(removed);
}

TEST(Viewers, ATrainerAfterAViewerKeepsTheRun) {
  HostWorld world(1);
  world.limits.run_grace = seconds(30);
  world.open();
  const auto first = world.join("a", 1, 0, "r");
  world.loops[0]->turn([&] { world.ask(first, 1, Set{.key = "k", .value = "v"}); });
  world.loops[0]->turn([&] { world.ask(first, 2, Goodbye{}); });
  world.settle();
  world.pass(seconds(20));
  EXPECT_EQ(world.observe("a", 2, "r"), Lines{"1:hello ok"});
  const auto second = world.join("a", 3, 0, "r");
  EXPECT_EQ(second->job->number, first->job->number);
  world.pass(seconds(60));
  world.settle();
  EXPECT_EQ(world.struck, Lines{});
}

}  // namespace
}  // namespace c10dd::core
