// SPDX-License-Identifier: Apache-2.0
// Why the sends and receives of process groups do not go on, from what the ranks report.
#include <gtest/gtest.h>

#include "tests/unit/core/activity_run.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class MessageWaitsTest : public RanksRun {};

TEST_F(MessageWaitsTest, NameTheSenderOfAMessage) {
  receive(1, kDp, 1);
  live(1250ms, all_);
  EXPECT_EQ(
      text(),
      "waiting missing: recv 0 of group \"dp\" waits for rank 1 on host-2 (pid 102), which is "
      "connected, but has not sent the message; 1 rank waits");
}

TEST_F(MessageWaitsTest, SayThatASenderWentOnWithoutSending) {
  receive(1, kDp, 1);
  issue_all({2, 3, 4}, kDp);
  block(all_);
  live(1250ms, all_);
  EXPECT_EQ(text(),
            "stuck unsent: recv 0 of group \"dp\" waits for a message from rank 1 on host-2 (pid "
            "102), which went on without sending it");
  EXPECT_FALSE(diagnosis().hopeless);
}

TEST_F(MessageWaitsTest, SayThatAReceiverWentOnWithoutReceiving) {
  send(1, kDp, 1);
  issue(2, kDp);
  finish({2}, kDp);
  live(1250ms, all_);
  EXPECT_EQ(
      text(),
      "waiting unsent: send 0 of group \"dp\" waits for rank 1 on host-2 (pid 102), which went "
      "on without receiving it");
}

TEST_F(MessageWaitsTest, FollowThePipelineToTheRankThatDoesNotSend) {
  receive(2, kDp, 0);
  receive(3, kDp, 1);
  receive(4, kDp, 2);
  block(all_but(1));
  live(1250ms, all_);
  EXPECT_EQ(
      text(),
      "waiting missing: recv 0 of group \"dp\" waits for rank 0 on host-1 (pid 101), which is "
      "connected, but has not sent the message; 3 ranks wait");
}

TEST_F(MessageWaitsTest, FindADeadlockOfTwoWhoReceiveFromEachOther) {
  receive(1, kDp, 1);
  issue(2, kDp);
  finish({2}, kDp);  // or it would say that both have sent nothing
  receive(2, kDp, 0);
  live(2s, all_);
  EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::unsent);
}

TEST_F(MessageWaitsTest, TakeAMessageInWhichBothAreForNoDeadlock) {
  send(1, kDp, 1);
  receive(2, kDp, 0);
  block(all_);
  live(1250ms, all_);
  EXPECT_EQ(
      text(),
      "waiting hung: recv 0 of group \"dp\" does not end, although all its ranks are in it; 2 "
      "ranks wait; check the network and the devices");
  finish({1, 2}, kDp);
  send(1, kDp, 1);
  receive(2, kDp, -1);  // from any rank
  live(1250ms, all_);
  EXPECT_EQ(text().substr(0, 40), "waiting hung: send 1 of group \"dp\" does ");
}

TEST_F(MessageWaitsTest, SayThatTwoTagsDiffer) {
  send(1, kDp, 1, "tag 5");
  receive(2, kDp, 0, "tag 50");
  block(all_);
  live(1250ms, all_);
  const std::string receiver = "rank 1 on host-2 (pid 102)";
  EXPECT_EQ(text(),
            "stuck deadlock: deadlock: rank 0 on host-1 (pid 101) waits in send 0 with tag 5 of "
            "group \"dp\" for " +
                receiver +
                ", which waits in recv 0 with tag 50 of group \"dp\" "
                "for rank 0");
}

TEST_F(MessageWaitsTest, TakeTagsThatFitForOneMessage) {
  for (const auto& [sent, received] : {std::pair("tag 5", "tag 5"), std::pair("tag 5", "any tag"),
                                       std::pair("tag 5", ""), std::pair("", "tag 5")}) {
    send(1, kDp, 1, sent);
    receive(2, kDp, 0, received);
    block(all_);
    live(1250ms, all_);
    EXPECT_EQ(diagnosis().kind, Diagnosis::Kind::hung) << sent << " " << received;
    finish({1, 2}, kDp);
    live(1250ms, all_);
  }
}

TEST_F(MessageWaitsTest, SayWhoReceivesFromAnyRank) {
  receive(3, kDp, -1);
  live(1250ms, all_);
  EXPECT_EQ(text(), "waiting missing: rank 2 on host-3 (pid 103) waits in recv 0 of group \"dp\"");
}

}  // namespace
}  // namespace c10dd::core
