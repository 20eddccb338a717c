// SPDX-License-Identifier: Apache-2.0
// How the budget's decisions reach connections, each on its own loop. The decisions themselves are
// tested in connection_budget_test.cc.
#include "daemon/net/shared_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/shard/loop.h"
#include "tests/unit/daemon/samples.h"

namespace c10dd::daemon {
namespace {

struct Sink final : BudgetSink {
  explicit Sink(Loop& of) : loop(of) {}
  boost::asio::any_io_executor budget_executor() override { return loop.get_executor(); }
  void read_on() override { ++reads; }
  void close_for_room(const Failure& reason) override { closed.push_back(reason.code); }

  Loop& loop;
  unsigned reads = 0;
  std::vector<Code> closed;
};

struct Connection {
  Connection(SharedBudget& budget, Loop& loop) : sink(std::make_shared<Sink>(loop)), share(budget) {
    share.belong_to(sink);
  }

  std::shared_ptr<Sink> sink;
  BudgetShare share;
};

class SharedBudgetTest : public testing::Test {
 protected:
  static void turn(Loop& loop) {
    loop.restart();
    loop.poll();
  }

  Loop loop_;
  Loop other_;
  SharedBudget budget_{loop_, 8 * 64 * kMiB};  // an eighth: 64 MiB
  Connection a_{budget_, loop_};
  Connection b_{budget_, other_};
};

TEST_F(SharedBudgetTest, LargerDaemonHasMore) {
  SharedBudget large(loop_, 8 * 128 * kMiB);
  Connection one(large, loop_);
  one.share.set_replies(100 * kMiB);
  EXPECT_FALSE(large.scarce());
}

TEST_F(SharedBudgetTest, SmallFramesAreNotCounted) {
  EXPECT_TRUE(a_.share.begin_frame(limits::kUncountedBytes));
  EXPECT_FALSE(a_.share.has_frame());
  a_.share.set_replies(limits::kUncountedBytes);
  EXPECT_EQ(budget_.held(), 0u);
}

TEST_F(SharedBudgetTest, CountsFramesAndAnswersUntilTheyAreGivenBack) {
  EXPECT_TRUE(a_.share.begin_frame(5 * kMiB));
  EXPECT_TRUE(a_.share.begin_frame(10 * kMiB)) << "it has grown";
  EXPECT_TRUE(a_.share.begin_frame(5 * kMiB)) << "there is room already";
  EXPECT_EQ(a_.share.frame(), 10 * kMiB);
  EXPECT_EQ(budget_.held(), 10 * kMiB);
  a_.share.set_replies(kMiB);
  EXPECT_EQ(budget_.held(), 11 * kMiB);
  a_.share.set_replies(kMiB + limits::kUncountedBytes);
  EXPECT_EQ(budget_.held(), 11 * kMiB) << "what changes little is not told";
  a_.share.end_frame();
  a_.share.end_frame();
  EXPECT_EQ(budget_.held(), kMiB);
  a_.share.set_replies(10);
  EXPECT_EQ(budget_.held(), 0u);
}

TEST_F(SharedBudgetTest, FrameThatWaitsIsReadOnItsOwnLoop) {
  EXPECT_TRUE(a_.share.begin_frame(60 * kMiB));
  EXPECT_FALSE(b_.share.begin_frame(10 * kMiB));
  EXPECT_TRUE(budget_.scarce());
  a_.share.end_frame();
  turn(loop_);
  EXPECT_EQ(b_.sink->reads, 0u);
  turn(other_);
  EXPECT_EQ(b_.sink->reads, 1u);
  EXPECT_EQ(budget_.held(), 10 * kMiB);
  EXPECT_FALSE(budget_.scarce());
}

TEST_F(SharedBudgetTest, OneThatLeavesMakesRoom) {
  EXPECT_TRUE(a_.share.begin_frame(60 * kMiB));
  EXPECT_FALSE(b_.share.begin_frame(10 * kMiB));
  a_.share.leave();
  a_.share.leave();
  turn(other_);
  EXPECT_EQ(b_.sink->reads, 1u);
  {
    Connection c(budget_, loop_);
    c.share.set_replies(kMiB);
    EXPECT_EQ(budget_.held(), 11 * kMiB);
  }
  EXPECT_EQ(budget_.held(), 10 * kMiB);
}

TEST_F(SharedBudgetTest, OneThatHoldsFarTooMuchIsClosedAtOnce) {
  b_.share.set_replies(129 * kMiB);
  turn(loop_);
  EXPECT_TRUE(b_.sink->closed.empty());
  turn(other_);
  EXPECT_EQ(b_.sink->closed, std::vector<Code>{Code::quota_exceeded});
  EXPECT_EQ(budget_.held(), 0u);
}

TEST_F(SharedBudgetTest, VerdictOnAConnectionThatIsGoneIsDropped) {
  EXPECT_TRUE(a_.share.begin_frame(60 * kMiB));
  EXPECT_FALSE(b_.share.begin_frame(10 * kMiB));
  b_.sink.reset();
  a_.share.end_frame();
  turn(other_);
  EXPECT_EQ(budget_.held(), 10 * kMiB);
}

TEST_F(SharedBudgetTest, LooksAgainWhileItIsScarce) {
  SharedBudget budget(loop_, 8 * 64 * kMiB, std::chrono::milliseconds(1));
  Connection a(budget, loop_);
  Connection b(budget, loop_);
  EXPECT_TRUE(a.share.begin_frame(60 * kMiB));
  EXPECT_FALSE(b.share.begin_frame(10 * kMiB));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while ((b.sink->reads == 0 || a.sink->closed.empty()) && std::chrono::steady_clock::now() < end) {
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(a.sink->closed, std::vector<Code>{Code::quota_exceeded}) << "after its patience";
  EXPECT_EQ(b.sink->reads, 1u);
}

}  // namespace
}  // namespace c10dd::daemon
