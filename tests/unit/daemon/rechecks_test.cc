// SPDX-License-Identifier: Apache-2.0
// When connections are told to ask again who their clients are.
#include "daemon/net/rechecks.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

namespace c10dd::daemon {
namespace {

using namespace std::chrono_literals;

struct Asked final : Recheckable {
  void recheck() override { ++rechecked; }
  int rechecked = 0;
};

class RechecksTest : public testing::Test {
 protected:
  void at(const std::shared_ptr<Asked>& one, Rechecks::Time due) {
    rechecks_.at(one, loop_.get_executor(), due);
  }
  void look(Rechecks::Time now) {
    rechecks_.look(now);
    loop_.restart();
    loop_.poll();
  }

  boost::asio::io_context loop_;
  Rechecks rechecks_;
  const Rechecks::Time begin_{1h};
};

TEST_F(RechecksTest, EachHasItsOwnTimeAndIsToldOnce) {
  const auto one = std::make_shared<Asked>();
  const auto two = std::make_shared<Asked>();
  at(one, begin_ + 10s);
  at(two, begin_ + 20s);
  look(begin_ + 9s);
  EXPECT_EQ(one->rechecked, 0);
  look(begin_ + 10s);
  look(begin_ + 11s);
  EXPECT_EQ(one->rechecked, 1);
  EXPECT_EQ(two->rechecked, 0);
  at(one, begin_ + 30s);
  look(begin_ + 40s);
  EXPECT_EQ(one->rechecked, 2);
  EXPECT_EQ(two->rechecked, 1);
  EXPECT_EQ(rechecks_.noted(), 0U);
}

TEST_F(RechecksTest, TheSoonestOfManyChannelsCounts) {
  const auto one = std::make_shared<Asked>();
  at(one, begin_ + 10s);
  at(one, begin_ + 90s);
  EXPECT_EQ(rechecks_.noted(), 1U);
  look(begin_ + 10s);
  EXPECT_EQ(one->rechecked, 1);
}

TEST_F(RechecksTest, AllAreToldWhenTheRulesChange) {
  const auto one = std::make_shared<Asked>();
  const auto two = std::make_shared<Asked>();
  at(one, begin_ + 1h);
  at(two, begin_ + 2h);
  rechecks_.all();
  look(begin_);
  EXPECT_EQ(one->rechecked, 1);
  EXPECT_EQ(two->rechecked, 1);
}

TEST_F(RechecksTest, AClosedConnectionIsForgottenAlsoIfItWasOnItsWay) {
  auto one = std::make_shared<Asked>();
  at(one, begin_ + 10s);
  rechecks_.look(begin_ + 10s);
  one.reset();
  look(begin_ + 11s);
  one = std::make_shared<Asked>();
  at(one, begin_ + 1h);
  one.reset();
  look(begin_ + 12s);
  EXPECT_EQ(rechecks_.noted(), 0U);
}

}  // namespace
}  // namespace c10dd::daemon
