// SPDX-License-Identifier: Apache-2.0
// A client that knows several daemons: silence, redirects, takeovers, and how long it waits.
#include <map>

#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Names = std::vector<std::string>;

/// A client that begins at a:1, and knows b:1 and more.
World world_at(const Names& addresses = {"a:1", "b:1"}) {
  for (std::uint64_t seed = 0;; ++seed) {
    World w(seed, addresses);
    if (w.core.address() == addresses.front()) return w;
  }
}

/// Waits until the client connects, and returns how long that took.
Duration wait_for_dial(World& w) {
  const TimePoint before = w.now;
  w.now = std::max(w.now, *w.core.dial_at());
  return w.now - before;
}

/// Fails the next attempt to connect, and returns the wait before it.
Duration fail(World& w, bool refused = true) {
  const Duration waited = wait_for_dial(w);
  w.core.dialling();
  w.core.closed(refused ? "connect: connection refused" : "connect: connection timed out", w.now,
                refused);
  return waited;
}

/// Answers the hello of the next attempt with a failure, and returns the wait before it.
Duration answer(World& w, Code code, Duration retry_after = {}, Names addresses = {}) {
  const Duration waited = wait_for_dial(w);
  w.dial();
  w.sent();
  Failure reason = failure(code, "says " + w.core.address());
  reason.retry_after = retry_after;
  reason.addresses = std::move(addresses);
  w.reply(Hello::op.code, 0, reason);
  return waited;
}

void welcome(World& w, Names daemons = {}) {
  w.dial();
  w.sent();
  w.reply(Hello::op.code, 0, World::welcome(1024, seconds(30), std::move(daemons)));
  ASSERT_TRUE(w.core.open());
}

/// Runs the client's time until the connection has ended, and returns how long that took.
Duration until_lost(World& w) {
  const TimePoint before = w.now;
  while (w.core.wants_socket()) {
    w.now = std::max(w.now, *w.core.next_deadline());
    w.core.tick(w.now);
    w.sent();
  }
  return w.now - before;
}

TEST(ClientFleet, BeginsAtARandomAddressFromItsSeed) {
  std::map<std::string, int> first;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ++first[World(seed, {"a:1", "b:1"}).core.address()];
  }
  EXPECT_EQ(first.size(), 2u);
}

TEST(ClientFleet, GoesOnAtOnceUntilEachWasTriedThenBacksOff) {
  World w = world_at({"a:1", "b:1", "c:1"});
  Duration longest{0};
  for (int round = 0; round < 40; ++round) {
    longest = std::max(longest, fail(w));  // the wait before the first of a round
    for (const char* next : {"b:1", "c:1"}) {
      EXPECT_EQ(w.core.address(), next);
      EXPECT_LE(fail(w, next[0] == 'b'), Backoff::kFirst);
    }
    EXPECT_EQ(w.core.address(), "a:1");
  }
  EXPECT_GT(longest, milliseconds(500)) << "the waits between rounds grow";
  EXPECT_GT(w.now - TimePoint(), seconds(8));
}

TEST(ClientFleet, TriesItsAddressesInTurn) {
  World w = world_at();
  fail(w);
  EXPECT_EQ(w.core.address(), "b:1");
  w.open();
  w.core.closed("lost", w.now);
  EXPECT_EQ(w.core.address(), "b:1") << "one that worked is tried first";
  EXPECT_LE(fail(w), Backoff::kFirst);
  EXPECT_EQ(w.core.address(), "a:1");
  EXPECT_LE(wait_for_dial(w), Backoff::kFirst);
}

TEST(ClientFleet, WaitsOneSecondForAConnection) {
  World one;
  EXPECT_EQ(one.core.connect_patience(), milliseconds(2500));
  World w = world_at();
  EXPECT_EQ(w.core.connect_patience(), seconds(1));
  for (int i = 0; i < 4; ++i) fail(w, false);
  EXPECT_EQ(w.core.connect_patience(), milliseconds(2500)) << "it grows if all are slow";
}

TEST(ClientFleet, LeavesADaemonThatDoesNotGreetAfterOneSecond) {
  World w = world_at();
  w.dial();
  EXPECT_EQ(until_lost(w), seconds(1));
  EXPECT_NE(w.core.absence(w.now).find("did not answer the hello within 1 s"), std::string::npos)
      << w.core.absence(w.now);
  EXPECT_EQ(w.core.address(), "b:1");
  EXPECT_LE(wait_for_dial(w), Backoff::kFirst);
}

TEST(ClientFleet, SlowDaemonsGetMoreTimeInTheEnd) {
  World w = world_at();
  Duration longest{0};
  for (int i = 0; i < 20; ++i) {
    w.dial();
    EXPECT_FALSE(w.core.probe_at()) << "rather the next address";
    longest = std::max(longest, until_lost(w));
  }
  EXPECT_EQ(longest, Core::kHelloPatience);
}

TEST(ClientFleet, LeavesADaemonThatFallsSilentAfterOneSecond) {
  World w = world_at();
  welcome(w);
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  ASSERT_EQ(w.sent().size(), 1u);
  EXPECT_EQ(until_lost(w), seconds(1)) << "after the heartbeat";
  EXPECT_EQ(w.core.address(), "b:1");
  EXPECT_LE(wait_for_dial(w), Backoff::kFirst);
  EXPECT_NE(w.core.absence(w.now).find("it has sent nothing for 1 s"), std::string::npos);
}

TEST(ClientFleet, ARequestDoesNotHideTheSilence) {
  World w = world_at();
  welcome(w);
  w.core.call(Get{"a", seconds(60)}, kLimit, w.now);
  w.sent();
  EXPECT_LE(until_lost(w), limits::kHeartbeatInterval + seconds(1));
  EXPECT_EQ(w.core.address(), "b:1");
}

TEST(ClientFleet, TheFleetOfTheWelcomeMakesTheDifference) {
  World w;
  welcome(w, {"host:29500"});
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  EXPECT_EQ(until_lost(w), limits::kSessionTtl) << "no other daemon is known";
  EXPECT_EQ(w.core.address(), "host:29500");
  welcome(w, {"host:29500", "b:1"});
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  EXPECT_EQ(until_lost(w), seconds(1));
  EXPECT_EQ(w.core.address(), "b:1");
}

TEST(ClientFleet, AFalseAlarmIsNotRaisedAgainAndAgain) {
  World w = world_at();
  welcome(w);
  std::vector<Duration> waits;
  for (int i = 0; i < 4; ++i) {
    w.now += limits::kHeartbeatInterval;
    w.core.tick(w.now);
    waits.push_back(until_lost(w));
    answer(w, Code::not_owner, {}, {"a:1"});
    welcome(w);
  }
  EXPECT_EQ(waits, (std::vector<Duration>{seconds(1), seconds(2), limits::kSessionTtl,
                                          limits::kSessionTtl}));
}

TEST(ClientFleet, SlowHeartbeatsDoNotLookLikeSilence) {
  World w = world_at();
  w.dial();
  w.sent();
  Welcome body;
  body.version = kProtocolVersion;
  body.heartbeat_interval = seconds(2);
  body.session_ttl = seconds(10);
  body.window = 1024;
  w.reply(Hello::op.code, 0, ReplyBody(body));
  w.now += seconds(2);
  w.core.tick(w.now);
  EXPECT_EQ(until_lost(w), seconds(4)) << "two intervals";
}

TEST(ClientFleet, FollowsARedirectAtOnce) {
  World w = world_at();
  answer(w, Code::not_owner, {}, {"x:1"});
  EXPECT_EQ(w.core.address(), "x:1");
  EXPECT_EQ(wait_for_dial(w), Duration::zero());
  welcome(w);
  Failure moved = failure(Code::not_owner, "the job has moved");
  moved.addresses = {"y:1"};
  w.reply(Hello::op.code, 0, moved);
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_EQ(w.core.address(), "y:1") << "also out of an open session";
  EXPECT_EQ(wait_for_dial(w), Duration::zero());
}

TEST(ClientFleet, FollowsRedirectsInACircleWithBackOff) {
  World w = world_at();
  const auto follow = [&w] {
    answer(w, Code::not_owner, {}, {w.core.address() == "a:1" ? "b:1" : "a:1"});
    return *w.core.dial_at() - w.now;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(follow(), Duration::zero()) << i;
  for (int i = 0; i < 40; ++i) follow();
  EXPECT_GT(w.now - TimePoint(), seconds(5)) << "it does not spin";
  EXPECT_NE(w.core.absence(w.now).find("the redirects lead in a circle: a:1 -> b:1 -> a:1"),
            std::string::npos)
      << w.core.absence(w.now);
}

TEST(ClientFleet, SessionsThatAreSentAwayAtOnceDoNotSpin) {
  World w = world_at();
  for (int i = 0; i < 60; ++i) {
    welcome(w);
    Failure moved = failure(Code::not_owner, "the job has moved");
    moved.addresses = {w.core.address() == "a:1" ? "b:1" : "a:1"};
    w.reply(Hello::op.code, 0, moved);
  }
  EXPECT_GT(w.now - TimePoint(), seconds(8));
}

TEST(ClientFleet, ARedirectIsQuickAgainAfterAReply) {
  World w = world_at();
  for (int i = 0; i < 6; ++i) answer(w, Code::not_owner, {}, {"x:1"});
  welcome(w);
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  w.sent();
  w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  Failure moved = failure(Code::not_owner, "the job has moved");
  moved.addresses = {"y:1"};
  w.reply(Hello::op.code, 0, moved);
  EXPECT_EQ(wait_for_dial(w), Duration::zero());
}

TEST(ClientFleet, NotOwnerWithoutAnAddressGoesToTheNextWithBackOff) {
  World w = world_at();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(w.core.address(), i % 2 == 0 ? "a:1" : "b:1");
    answer(w, Code::not_owner);
  }
  EXPECT_GT(w.now - TimePoint(), seconds(6));
  welcome(w);
  const std::string here = w.core.address();
  w.reply(Hello::op.code, 0, failure(Code::not_owner, "the job was released"));
  EXPECT_NE(w.core.address(), here) << "also out of an open session";
}

TEST(ClientFleet, StaysWhereItIsToldWhenToComeBack) {
  World w = world_at();
  answer(w, Code::unavailable, milliseconds(200));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(w.core.address(), "a:1");
    const Duration waited = answer(w, Code::unavailable, milliseconds(200));
    EXPECT_GE(waited, milliseconds(200));
    EXPECT_LE(waited, milliseconds(220)) << "the wait does not grow";
  }
  welcome(w);
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  Failure reason = failure(Code::unavailable, "the lease has ended");
  reason.retry_after = milliseconds(300);
  w.reply(Set::op.code, 1, reason);
  EXPECT_EQ(w.core.address(), "a:1") << "also out of an open session";
  const Duration waited = wait_for_dial(w);
  EXPECT_GE(waited, milliseconds(300));
  EXPECT_LE(waited, milliseconds(320));
}

TEST(ClientFleet, LeavesADaemonThatCannotServeForThoseThatItNames) {
  World w = world_at();
  answer(w, Code::unavailable, milliseconds(100), {"c:1", "b:1"});
  EXPECT_EQ(w.core.address(), "c:1");
  const Duration waited = wait_for_dial(w);
  EXPECT_GE(waited, milliseconds(100)) << "all daemons may be cut off from the engine";
  EXPECT_LE(waited, milliseconds(120));
  fail(w);
  EXPECT_EQ(w.core.address(), "b:1");
  EXPECT_LE(answer(w, Code::unavailable, milliseconds(200)), Backoff::kFirst);
  EXPECT_EQ(w.core.address(), "b:1") << "it names nobody, so it waits for the end of a lease";
}

TEST(ClientFleet, DoesNotWaitLongWhileDaemonsNameADeadOwner) {
  World w = world_at();
  Duration longest{0};
  for (int i = 0; i < 40; ++i) {
    longest = std::max(longest, answer(w, Code::not_owner, {}, {"dead:1"}));
    longest = std::max(longest, fail(w));
  }
  EXPECT_LE(longest, milliseconds(200));
  EXPECT_GT(w.now - TimePoint(), seconds(1)) << "but it does wait";
}

TEST(ClientFleet, ATinyWaitDoesNotSpin) {
  World w = world_at();
  for (int i = 0; i < 100; ++i) answer(w, Code::unavailable, Duration(1));
  EXPECT_GT(w.now - TimePoint(), seconds(1));
}

TEST(ClientFleet, GoesOnWhenTheDaemonThatWaitedIsGone) {
  World w = world_at();
  answer(w, Code::unavailable, milliseconds(200));
  fail(w);
  EXPECT_EQ(w.core.address(), "b:1");
  EXPECT_LE(wait_for_dial(w), Backoff::kFirst);
}

TEST(ClientFleet, LeavesADaemonThatCannotServeForLong) {
  World w = world_at();
  const auto stay = [&w] {
    const TimePoint begin = w.now;
    for (const std::string here = w.core.address(); w.core.address() == here;) {
      answer(w, Code::unavailable, milliseconds(100));
    }
    return w.now - begin;
  };
  const Duration first = stay();
  EXPECT_GE(first, seconds(5));
  EXPECT_LE(first, seconds(6));
  EXPECT_EQ(w.core.address(), "b:1");
  Duration longest{0};
  for (int i = 0; i < 12; ++i) longest = std::max(longest, stay());
  EXPECT_GT(longest, limits::kLeaseMax) << "one that waits for the end of any lease";
  EXPECT_LE(longest, seconds(90));
}

TEST(ClientFleet, ADaemonThatServesBetweenIsNotLeft) {
  World w = world_at();
  for (int i = 0; i < 100; ++i) {
    answer(w, Code::unavailable, milliseconds(100));
    welcome(w);
    w.now += limits::kHeartbeatInterval;
    w.core.tick(w.now);
    w.sent();
    w.reply(Ping::op.code, 0, ReplyBody(Done{}));
    ASSERT_EQ(w.core.address(), "a:1");
    w.core.closed("lost", w.now);
  }
}

TEST(ClientFleet, UnavailableWithoutATimeGoesToTheNext) {
  World w = world_at();
  answer(w, Code::unavailable);
  EXPECT_EQ(w.core.address(), "b:1");
}

TEST(ClientFleet, AnExpiredSessionIsOpenedAnewAtTheDaemonThatSaidSo) {
  World w = world_at();
  answer(w, Code::session_expired);
  EXPECT_EQ(w.core.address(), "a:1");
}

TEST(ClientFleet, SaysWhichDaemonsItHasTriedAndWhy) {
  World w = world_at({"a:1", "b:2"});
  fail(w);
  answer(w, Code::not_owner);
  w.now = TimePoint(seconds(12));
  EXPECT_EQ(w.core.absence(w.now),
            "the daemons at a:1, b:2 have not been reachable for 12 s (a:1: connect: connection "
            "refused; b:2: it does not own the job: says b:2)");
}

TEST(ClientFleet, NamesAServerThatIsNoDaemonAndAsksNone) {
  World w = world_at({"a:1", "b:2"});
  w.dial();
  w.core.received("HTTP/1.1 400 Bad Request\r\nServer: nginx/1.22.1\r\n\r\n", w.now);
  EXPECT_TRUE(w.core.probe(w.now).empty());
  EXPECT_FALSE(w.core.probe_at());
  fail(w, false);
  EXPECT_NE(w.core.absence(w.now).find("(a:1: the server there speaks HTTP (\"HTTP/1.1 400 Bad "
                                       "Request\"); check the port; b:2: connect: connection "
                                       "timed out)"),
            std::string::npos)
      << w.core.absence(w.now);
}

TEST(ClientFleet, EqualSeedsGiveEqualPaths) {
  const auto path = [](std::uint64_t seed) {
    World w(seed, {"a:1", "b:1", "c:1"});
    std::vector<std::pair<std::string, TimePoint>> dials;
    for (int i = 0; i < 50; ++i) {
      dials.emplace_back(w.core.address(), *w.core.dial_at());
      if (i % 5 == 0) answer(w, Code::not_owner, {}, {"c:1"});
      if (i % 5 != 0) fail(w, i % 2 == 0);
    }
    return dials;
  };
  EXPECT_EQ(path(3), path(3));
  EXPECT_NE(path(3), path(4));
}

}  // namespace
}  // namespace c10dd::client
