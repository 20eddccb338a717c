// SPDX-License-Identifier: Apache-2.0
// Connections that say nothing end early if there are many of one address, or their place is
// wanted.
#include "daemon/net/newcomers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace c10dd::daemon {
namespace {

using namespace std::chrono_literals;

class NewcomersTest : public testing::Test {
 protected:
  static Newcomers::Address at(int host) {
    return boost::asio::ip::make_address("10.0.0." + std::to_string(host));
  }
  Newcomers::Number add(int host) {
    return newcomers_.add(at(host), now_, [this, host](bool wants_place) {
      ended_.push_back(std::to_string(host) + (wants_place ? " for another" : ""));
    });
  }

  Newcomers newcomers_;
  Newcomers::Time now_{};
  std::vector<std::string> ended_;
};

TEST_F(NewcomersTest, OnlyAnAddressWithTooManyLosesItsOldestEarly) {
  for (std::size_t i = 0; i < Newcomers::kShare; ++i) add(1);
  for (int i = 0; i < 10; ++i) add(2);
  now_ += 4s;
  EXPECT_FALSE(newcomers_.crowded());
  newcomers_.look(now_);
  EXPECT_TRUE(ended_.empty());
  for (int i = 0; i < 3; ++i) add(1);
  EXPECT_TRUE(newcomers_.crowded());
  newcomers_.look(now_);
  EXPECT_EQ(ended_, (std::vector<std::string>{"1", "1", "1"}));
  EXPECT_FALSE(newcomers_.crowded());
}

TEST_F(NewcomersTest, EachHasItsPatience) {
  for (std::size_t i = 0; i < 2 * Newcomers::kShare; ++i) add(1);
  now_ += Newcomers::kPatience - 1ms;
  newcomers_.look(now_);
  EXPECT_TRUE(ended_.empty());
  now_ += 1ms;
  newcomers_.look(now_);
  EXPECT_EQ(ended_.size(), Newcomers::kShare);
}

TEST_F(NewcomersTest, GivesThePlaceOfTheOldestToAnother) {
  const auto first = add(1);
  add(2);
  add(2);
  EXPECT_FALSE(newcomers_.make_room(at(3)));
  EXPECT_TRUE(newcomers_.make_room());
  EXPECT_EQ(ended_.back(), "2 for another") << "the address that has most";
  EXPECT_TRUE(newcomers_.make_room(at(1)));
  EXPECT_EQ(ended_.back(), "1 for another");
  newcomers_.remove(at(1), first);
  newcomers_.remove(at(9), 7);
  EXPECT_TRUE(newcomers_.make_room());
  EXPECT_FALSE(newcomers_.make_room());
  EXPECT_EQ(ended_.size(), 3U);
}

TEST_F(NewcomersTest, CountsAddressesThatHaveTooMany) {
  std::vector<Newcomers::Number> all;
  for (std::size_t i = 0; i < Newcomers::kShare + 1; ++i) all.push_back(add(1));
  for (std::size_t i = 0; i < Newcomers::kShare + 1; ++i) add(2);
  for (const auto one : all) newcomers_.remove(at(1), one);
  EXPECT_TRUE(newcomers_.crowded());
  EXPECT_EQ(newcomers_.count(at(1)), 0U);
  EXPECT_TRUE(newcomers_.make_room(at(2)));
  EXPECT_FALSE(newcomers_.crowded());
}

}  // namespace
}  // namespace c10dd::daemon
