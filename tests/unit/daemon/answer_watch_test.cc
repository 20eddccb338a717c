// SPDX-License-Identifier: Apache-2.0
// In which order AnswerWatch looks at the connections, and when it stops.
#include "daemon/net/answer_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace c10dd::daemon {
namespace {

class Connection final : public AnswerWatch::Watched {
 public:
  void look_at_peer() override {
    ++looks;
    if (then) then();
  }
  int looks = 0;
  std::function<void()> then;
};

class AnswerWatchTest : public testing::Test {
 protected:
  AnswerWatchTest() { watch_.look_every(std::chrono::milliseconds(1)); }

  /// Runs the loop until the condition holds, or the loop has nothing to do.
  template <class Condition>
  void run_until(Condition&& there) {
    while (!there() && loop_.run_one_for(std::chrono::seconds(30)) > 0) continue;
    EXPECT_TRUE(there());
  }
  std::vector<std::unique_ptr<Connection>> add(std::size_t count) {
    std::vector<std::unique_ptr<Connection>> all;
    while (all.size() < count) {
      all.push_back(std::make_unique<Connection>());
      watch_.add(*all.back());
    }
    return all;
  }

  boost::asio::io_context loop_;
  AnswerWatch& watch_ = AnswerWatch::of(loop_);
};

TEST_F(AnswerWatchTest, LooksAtAllInTurn) {
  const auto all = add(1'000);  // several slices
  run_until([&] { return all.back()->looks == 2; });
  for (const auto& one : all) {
    EXPECT_GE(one->looks, 2);
    EXPECT_LE(one->looks, 3);
  }
}

TEST_F(AnswerWatchTest, LooksNoMoreAtARemovedConnection) {
  const auto all = add(3);
  watch_.add(*all[0]);  // once more
  EXPECT_EQ(watch_.watched(), 3u);
  watch_.remove(*all[0]);
  watch_.remove(*all[0]);
  EXPECT_EQ(watch_.watched(), 2u);
  run_until([&] { return all[1]->looks > 1 && all[2]->looks > 1; });
  EXPECT_EQ(all[0]->looks, 0);
}

TEST_F(AnswerWatchTest, LetsTheLoopEndWithoutConnections) {
  const auto all = add(2);
  for (const auto& one : all) watch_.remove(*one);
  loop_.run();
  EXPECT_EQ(all[0]->looks, 0);
  watch_.add(*all[0]);
  loop_.restart();
  run_until([&] { return all[0]->looks == 1; });
}

TEST_F(AnswerWatchTest, AConnectionMayRemoveItselfAndOthers) {
  const auto all = add(3);
  all[0]->then = [&] { watch_.remove(*all[0]); };
  all[2]->then = [&] {
    watch_.remove(*all[1]);
    watch_.remove(*all[2]);
  };
  loop_.run();
  EXPECT_EQ(watch_.watched(), 0u);
  EXPECT_EQ(all[0]->looks, 1);
  EXPECT_EQ(all[2]->looks, 1);
  all[2]->then = [&] {
    watch_.remove(*all[2]);
    watch_.add(*all[0]);
  };
  watch_.add(*all[2]);
  loop_.restart();
  loop_.run();
  EXPECT_EQ(all[0]->looks, 2);
}

TEST(AnswerWatch, OutlivesItsConnections) {
  Connection left;
  {
    boost::asio::io_context loop;
    AnswerWatch::of(loop).add(left);
  }
  EXPECT_EQ(left.looks, 0);
}

}  // namespace
}  // namespace c10dd::daemon
