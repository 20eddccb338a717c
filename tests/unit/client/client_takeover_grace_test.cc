// SPDX-License-Identifier: Apache-2.0
// How long refused connections and `unavailable` count as signs of life (Welcome::takeover_grace).
#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void open(World& w, Duration takeover_grace, std::vector<std::string> daemons = {}) {
  w.dial();
  w.sent();
  w.reply(Hello::op.code, 0, World::welcome(1024, takeover_grace, std::move(daemons)));
  ASSERT_TRUE(w.core.open());
}

void refuse(World& w) {
  w.now = std::max(w.now, *w.core.dial_at());
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now, true);
}

void say_unavailable(World& w) {
  w.dial();
  w.sent();
  Failure reason = failure(Code::unavailable, "the owner may be back");
  reason.retry_after = milliseconds(100);
  w.reply(Hello::op.code, 0, reason);
}

TEST(ClientTakeoverGrace, WithoutARivalEachRefusalIsASignOfLife) {
  World w;
  open(w, {});
  w.core.closed("lost", w.now);
  w.now += seconds(100);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
  w.now += seconds(100);
  say_unavailable(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
}

TEST(ClientTakeoverGrace, SignsOfLifeCountUntilItsEndAndNotAfter) {
  for (const auto& sign : {refuse, say_unavailable}) {
    World w;
    open(w, seconds(5));
    w.core.closed("lost", w.now);
    const TimePoint end = TimePoint(seconds(5));
    w.now = end;
    sign(w);
    const TimePoint last = w.core.last_confirmed();
    EXPECT_EQ(last, end);
    w.now = std::max(end + milliseconds(1), *w.core.dial_at());
    sign(w);
    EXPECT_EQ(w.core.last_confirmed(), last) << "they count no longer";
    w.now += seconds(100);
    sign(w);
    EXPECT_EQ(w.core.last_confirmed(), last);
  }
}

TEST(ClientTakeoverGrace, ItBeginsWhenTheHeartbeatWasSentNotWhenTheReplyCame) {
  World w;
  open(w, seconds(5));
  w.now += limits::kHeartbeatInterval;
  const TimePoint sent = w.now;
  w.core.tick(w.now);
  ASSERT_EQ(w.sent().size(), 1u);
  w.now += milliseconds(2400);
  w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  EXPECT_EQ(w.core.last_confirmed(), sent);
  w.core.closed("lost", w.now);
  w.now = sent + seconds(5);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), sent + seconds(5));
  w.now = sent + seconds(5) + milliseconds(1);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), sent + seconds(5)) << "the reply came 2.4 s later";
}

TEST(ClientTakeoverGrace, AHeartbeatOfALostConnectionSaysNothingOfTheNextReply) {
  World w;
  open(w, {});
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  ASSERT_EQ(w.sent().size(), 1u) << "a heartbeat, which never gets its reply";
  w.core.closed("lost", w.now);
  w.now += seconds(60);
  open(w, {});
  const TimePoint opened = w.core.last_confirmed();
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  ASSERT_EQ(w.sent().size(), 1u);
  w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  EXPECT_EQ(w.core.last_confirmed(), w.now) << "not 60 s ago";
  EXPECT_GT(w.core.last_confirmed(), opened);
}

TEST(ClientTakeoverGrace, ItBeginsWhenTheHelloWasSent) {
  World w;
  w.dial();
  w.sent();
  const TimePoint sent = w.now;
  w.now += seconds(3);
  w.reply(Hello::op.code, 0, World::welcome(1024, seconds(5)));
  w.core.closed("lost", w.now);
  w.now = sent + seconds(6);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), sent);
}

TEST(ClientTakeoverGrace, TheNewestWelcomeSaysIt) {
  World w;
  open(w, seconds(5));
  w.core.closed("lost", w.now);
  open(w, {});
  w.core.closed("lost", w.now);
  w.now += seconds(100);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
  open(w, seconds(5));
  const TimePoint opened = w.now;
  w.core.closed("lost", w.now);
  w.now += seconds(100);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), opened);
}

TEST(ClientTakeoverGrace, ANonsensicalTimeNeverCounts) {
  World w;
  open(w, Duration::min());
  const TimePoint opened = w.now;
  w.core.closed("lost", w.now);
  w.now += seconds(1);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), opened);
}

TEST(ClientTakeoverGrace, AHugeTimeDoesNotOverflow) {
  World w;
  w.now += seconds(1);
  open(w, Duration::max());
  w.core.closed("lost", w.now);
  w.now += seconds(100);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
}

TEST(ClientTakeoverGrace, WithoutItOnlyTheDaemonOfTheSessionCounts) {
  World w(1, {"a:1", "b:1"});
  open(w, {});
  const std::string owner = w.core.address();
  w.core.closed("lost", w.now);
  w.now += seconds(10);
  refuse(w);
  const TimePoint refused = w.now;
  EXPECT_EQ(w.core.last_confirmed(), refused);
  ASSERT_NE(w.core.address(), owner);
  w.now += seconds(1);
  refuse(w);
  EXPECT_EQ(w.core.last_confirmed(), refused) << "the owner may have declared it lost";
}

TEST(ClientTakeoverGrace, WithItEachDaemonCounts) {
  World w(1, {"a:1", "b:1"});
  open(w, seconds(30));
  w.core.closed("lost", w.now);
  refuse(w);
  w.now += seconds(1);
  say_unavailable(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
}

TEST(ClientTakeoverGrace, NotOwnerIsNoSignOfLife) {
  for (const Duration takeover_grace : {Duration{0}, Duration(seconds(30))}) {
    for (const bool names_owner : {false, true}) {
      World w;
      open(w, takeover_grace);
      const TimePoint opened = w.now;
      w.core.closed("lost", w.now);
      w.now += seconds(1);
      w.dial();
      w.sent();
      Failure reason = failure(Code::not_owner, "another daemon owns the job");
      if (names_owner) reason.addresses = {"b:1"};
      w.reply(Hello::op.code, 0, reason);
      EXPECT_EQ(w.core.last_confirmed(), opened);
    }
  }
}

TEST(ClientTakeoverGrace, ATimeOutIsNoSignOfLife) {
  World w;
  open(w, seconds(30));
  const TimePoint opened = w.now;
  w.core.closed("lost", w.now);
  w.now += seconds(1);
  w.core.dialling();
  w.core.closed("connect: connection timed out", w.now);
  EXPECT_EQ(w.core.last_confirmed(), opened);
}

}  // namespace
}  // namespace c10dd::client
