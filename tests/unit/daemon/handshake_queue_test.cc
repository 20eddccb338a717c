// SPDX-License-Identifier: Apache-2.0
// Whose handshake comes next: addresses take turns, and who does not go on gives way.
#include "daemon/net/handshake_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace c10dd::daemon {
namespace {

using namespace std::chrono_literals;
using Number = HandshakeQueue::Number;
using Numbers = std::vector<Number>;

class HandshakeQueueTest : public testing::Test {
 protected:
  static HandshakeQueue::Address at(int host) {
    return boost::asio::ip::make_address("10.0.0." + std::to_string(host));
  }
  Number add(int host) {
    queue_.add(++last_, at(host), now_);
    return last_;
  }
  HandshakeQueue::Turn turn() { return queue_.turn(now_); }
  /// Adds one of an address, and lets the daemon answer it. Returns who has given way to it.
  Numbers answer(int host) {
    const Number number = add(host);
    const HandshakeQueue::Turn taken = turn();
    EXPECT_EQ(taken.begin, Numbers{number});
    queue_.answered(number, now_);
    return taken.give_way;
  }

  HandshakeQueue queue_{{.answering = 2, .most = 6, .of_one = 4}};
  HandshakeQueue::Time now_{};
  Number last_ = 0;
};

TEST_F(HandshakeQueueTest, AnswersAFewAtATimeInTurnsByAddress) {
  for (int i = 0; i < 4; ++i) add(1);
  EXPECT_EQ(turn().begin, (Numbers{1, 2}));
  EXPECT_TRUE(turn().begin.empty()) << "both are being answered";
  add(2);
  add(3);
  queue_.answered(1, now_);
  EXPECT_EQ(turn().begin, Numbers{5}) << "the address that has waited for fewer turns";
  queue_.answered(2, now_);
  EXPECT_EQ(turn().begin, Numbers{6});
  queue_.ended(5);
  EXPECT_EQ(turn().begin, Numbers{3});
  queue_.ended(6);
  EXPECT_EQ(turn().begin, Numbers{4});
  EXPECT_EQ(queue_.under_way(), 4U);
  for (const Number one : {1, 2, 3, 4}) queue_.ended(one);
  queue_.ended(4);
  EXPECT_EQ(queue_.under_way(), 0U);
  EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(HandshakeQueueTest, TheOldestOfAFullAddressGivesWayAfterItsPatience) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(answer(1).empty());
    now_ += 10ms;
  }
  const Number next = add(1);
  EXPECT_TRUE(turn().begin.empty());
  EXPECT_TRUE(answer(2).empty()) << "another address has places";
  now_ = HandshakeQueue::Time(HandshakeQueue::kPatience - 1ms);
  EXPECT_TRUE(turn().begin.empty());
  now_ += 1ms;
  const HandshakeQueue::Turn taken = turn();
  EXPECT_EQ(taken.give_way, Numbers{1});
  EXPECT_EQ(taken.begin, Numbers{next});
  queue_.ended(1);
  queue_.answered(next, now_);
  now_ += 1s;
  EXPECT_EQ(answer(1), Numbers{2});
  EXPECT_EQ(answer(1), Numbers{3});
}

TEST_F(HandshakeQueueTest, NobodyWaitsLongerThanThePatienceAlthoughAllAreYoung) {
  for (int i = 0; i < 4; ++i) answer(1);
  const Number next = add(1);
  now_ += HandshakeQueue::kPatience - 1ms;
  for (Number one = 1; one <= 4; ++one) {  // the client goes on, so it begins anew
    queue_.ended(one);
    queue_.add(100 + one, at(1), now_);
  }
  EXPECT_EQ(turn().begin, (Numbers{next, 101}));
  queue_.answered(next, now_);
  queue_.answered(101, now_);
  EXPECT_EQ(turn().begin, (Numbers{102, 103}));
  queue_.answered(102, now_);
  queue_.answered(103, now_);
  EXPECT_TRUE(turn().begin.empty()) << "104 has just come";
  now_ += HandshakeQueue::kPatience;
  EXPECT_EQ(turn().give_way, Numbers{next});
}

TEST_F(HandshakeQueueTest, IfAllPlacesAreTakenTheAddressWithMostGivesWay) {
  for (int i = 0; i < 4; ++i) answer(1);
  answer(2);
  answer(3);
  now_ += 1s;
  EXPECT_EQ(answer(4), Numbers{1});
  EXPECT_EQ(answer(4), Numbers{2});
  EXPECT_EQ(queue_.under_way(), 8U) << "those that give way have not ended";
}

TEST_F(HandshakeQueueTest, WhoGoesOnKeepsItsPlace) {
  for (int i = 0; i < 4; ++i) answer(1);
  now_ += 1s;
  EXPECT_EQ(answer(1), Numbers{1});
  queue_.goes_on(1, now_);
  queue_.goes_on(2, now_);  // was not told to give way
  EXPECT_EQ(answer(1), Numbers{2}) << "one too many for a moment";
  EXPECT_EQ(answer(1), Numbers{3});
  queue_.ended(1);
  queue_.goes_on(1, now_);
  EXPECT_EQ(queue_.under_way(), 6U);
}

TEST_F(HandshakeQueueTest, ForgetsWhoHasWaitedTooLong) {
  for (int i = 0; i < 6; ++i) add(1);
  add(2);
  EXPECT_EQ(turn().begin, (Numbers{1, 7}));
  now_ += limits::kHandshakeTurn - 1ms;
  EXPECT_TRUE(queue_.late(now_).empty());
  const Number young = add(1);
  now_ += 1ms;
  EXPECT_EQ(queue_.late(now_), (Numbers{2, 3, 4, 5, 6}));
  EXPECT_EQ(queue_.waiting(), 1U);
  queue_.ended(1);
  EXPECT_EQ(turn().begin, Numbers{young});
}

TEST_F(HandshakeQueueTest, AFloodOfManyAddressesLeavesNothingBehind) {
  HandshakeQueue queue({.answering = 8, .most = 64, .of_one = 16});
  Number number = 0;
  std::vector<Number> begun;
  for (int round = 0; round < 200; ++round) {
    for (int host = 1; host < 200; ++host) queue.add(++number, at(host), now_);
    const HandshakeQueue::Turn taken = queue.turn(now_);
    for (const Number one : taken.begin) queue.answered(one, now_);
    begun.insert(begun.end(), taken.begin.begin(), taken.begin.end());
    for (const Number one : taken.give_way) queue.ended(one);
    now_ += 50ms;
    queue.late(now_);
    EXPECT_LE(queue.under_way(), 64U);
  }
  now_ += limits::kHandshakeTurn;
  queue.late(now_);
  for (const Number one : begun) queue.ended(one);
  EXPECT_EQ(queue.waiting(), 0U);
  EXPECT_EQ(queue.under_way(), 0U);
  EXPECT_TRUE(queue.turn(now_).begin.empty());
}

}  // namespace
}  // namespace c10dd::daemon
