// SPDX-License-Identifier: Apache-2.0
// Which handlers a turn of the loop runs.
#include "daemon/shard/loop.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Returns when this much time has passed on the clock that the loop reads.
void pass(milliseconds time) {
  const auto until = steady_clock::now() + time;
  while (steady_clock::now() < until) {
  }
}

class LoopTest : public testing::Test {
 protected:
  /// Posts `count` handlers, and returns how many of them the next turn runs.
  int run_of(int count) {
    for (int i = 0; i < count; ++i) loop_.post([this] { ++ran_; });
    const int before = ran_;
    loop_.run_ready();
    return ran_ - before;
  }

  Loop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(loop_);
  int ran_ = 0;
};

TEST_F(LoopTest, ATurnRunsAllThatIsReady) {
  EXPECT_EQ(run_of(3), 3);
  EXPECT_EQ(run_of(200), 200);
}

TEST_F(LoopTest, ATurnAfterAPauseRunsAllThatIsReady) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(run_of(1), 1);  // leads to turns that run one handler only
    pass(milliseconds(2));
    EXPECT_EQ(run_of(3), 3) << i;
  }
}

TEST_F(LoopTest, ATurnWhoseHandlerTakesLongRunsAllThatIsReady) {
  for (int i = 0; i < 40; ++i) {
    run_of(1);
    loop_.post([this] {
      static_cast<void>(loop_.now());  // the loop knows the time before the handler takes long
      pass(milliseconds(2));
    });
    EXPECT_EQ(run_of(2), 2) << i;
  }
}

TEST_F(LoopTest, ABusyLoopSoonRunsAllThatIsReady) {
  run_of(1);
  int ran = 0;
  int turns = 0;
  for (int left = 60; left > 0; left -= ran) {
    ran = run_of(turns == 0 ? 60 : 0);
    ++turns;
  }
  EXPECT_LE(turns, 17);
}

TEST_F(LoopTest, ATurnEndsAlthoughHandlersPostMore) {
  std::function<void()> again = [&] {
    ++ran_;
    loop_.post(again);
  };
  loop_.post(again);
  loop_.run_ready();
  EXPECT_LE(ran_, 257);
  loop_.empty();
}

TEST_F(LoopTest, ATurnReadsTheClockOnce) {
  loop_.start_clock();
  const auto first = loop_.now();
  pass(milliseconds(1));
  EXPECT_EQ(loop_.now(), first);
  loop_.start_clock();
  EXPECT_GT(loop_.now(), first);
}

}  // namespace
}  // namespace c10dd::daemon
