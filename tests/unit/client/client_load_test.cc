// SPDX-License-Identifier: Apache-2.0
// What a client does while the daemon loads its job (Failure::loading).
#include <set>

#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Failure loading(Duration retry_after = milliseconds(200)) {
  Failure reason = failure(Code::unavailable, "job \"a\" is being loaded: 4 of 20 rows");
  reason.retry_after = retry_after;
  reason.loading = true;
  return reason;
}

void begin_session(World& w, Duration takeover_grace = {}, std::vector<std::string> daemons = {}) {
  w.dial();
  w.sent();
  w.reply(Hello::op.code, 0, World::welcome(1024, takeover_grace, std::move(daemons)));
  ASSERT_TRUE(w.core.open());
}

/// The daemon was started again: the client connects, and its hello is answered after a while.
void meet_loading(World& w, Duration after = milliseconds(250)) {
  w.core.closed("lost", w.now);
  w.dial();
  ASSERT_EQ(w.only_sent().header.op, Hello::op.code);
  w.now += after;
  w.reply(Hello::op.code, 0, loading());
}

/// Waits until the client says hello again; returns how long that took.
Duration say_hello_again(World& w) {
  const TimePoint before = w.now;
  w.now = w.core.next_deadline().value();
  w.core.tick(w.now);
  const Sent sent = w.only_sent();
  EXPECT_EQ(sent.header.op, Hello::op.code);
  EXPECT_EQ(sent.header.channel, Core::kChannel);
  return w.now - before;
}

TEST(ClientLoad, KeepsItsConnectionAndSaysHelloAgain) {
  World w;
  begin_session(w);
  const std::uint64_t call = w.core.call(Set{"k", "v"}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.op, Set::op.code);
  meet_loading(w);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(w.core.wants_socket());
    EXPECT_FALSE(w.core.open());
    const Duration pause = say_hello_again(w);
    EXPECT_GE(pause, milliseconds(100));
    EXPECT_LE(pause, milliseconds(200));
    w.now += milliseconds(250);
    w.reply(Hello::op.code, 0, loading());
  }
  say_hello_again(w);
  w.reply(Hello::op.code, 0, World::welcome());
  EXPECT_TRUE(w.core.open());
  const Sent set = w.only_sent();
  EXPECT_EQ(set.header.op, Set::op.code) << "the call is sent again";
  w.reply(Set::op.code, set.header.sequence, ReplyBody(Written{}));
  EXPECT_EQ(w.core.take_completions().at(0).call, call);
  EXPECT_EQ(w.core.stats(w.now).sessions_lost, 0U);
  EXPECT_EQ(w.core.stats(w.now).connects, 2U);
}

TEST(ClientLoad, IsASignOfLifeFromWhenTheHelloWasSent) {
  World w;
  begin_session(w);
  w.now += seconds(1);
  meet_loading(w);
  EXPECT_EQ(w.core.last_confirmed(), w.now - milliseconds(250));
  for (int i = 0; i < 100; ++i) {
    say_hello_again(w);
    const TimePoint sent = w.now;
    w.now += milliseconds(250);
    w.reply(Hello::op.code, 0, loading());
    EXPECT_EQ(w.core.last_confirmed(), sent);
    EXPECT_LT(w.now - w.core.last_confirmed(), limits::kSessionTtl / 5 * 4);
  }
}

TEST(ClientLoad, CountsInAFleetHoweverLongItTakes) {
  World w(1, {"a:1", "b:1"});
  begin_session(w, seconds(5), {"a:1", "b:1"});
  const std::string before = w.core.address();
  w.core.closed("lost", w.now);
  w.dial();
  w.now = std::max(w.now, TimePoint(seconds(4)));
  Failure moved = failure(Code::not_owner, "moved");
  moved.addresses = {before == "a:1" ? "b:1" : "a:1"};
  w.sent();
  w.reply(Hello::op.code, 0, moved);
  w.dial();
  w.sent();
  w.now += milliseconds(250);
  w.reply(Hello::op.code, 0, loading());
  EXPECT_NE(w.core.address(), before);
  for (int i = 0; i < 60; ++i) {
    say_hello_again(w);
    const TimePoint sent = w.now;
    w.now += milliseconds(250);
    w.reply(Hello::op.code, 0, loading());
    EXPECT_EQ(w.core.last_confirmed(), sent);
    EXPECT_TRUE(w.core.wants_socket()) << "only this daemon can serve the job";
  }
  // The daemon that has loaded the job dies: refused connections count for the takeover grace.
  w.core.closed("lost", w.now);
  w.now = std::max(w.now, *w.core.dial_at());
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now, true);
  EXPECT_EQ(w.core.last_confirmed(), w.now);
}

TEST(ClientLoad, DoesNotCountAtADaemonThatIsNoneOfAFleetAndNotTheOneBefore) {
  World w(1, {"a:1", "b:1"});
  begin_session(w);
  const std::string before = w.core.address();
  const TimePoint confirmed = w.core.last_confirmed();
  w.now += seconds(1);
  w.core.closed("lost", w.now);
  do {
    w.now = std::max(w.now, *w.core.dial_at());
    w.core.dialling();
    if (w.core.address() != before) break;
    w.core.closed("timed out", w.now);
  } while (true);
  w.core.connected(w.now);
  w.sent();
  w.reply(Hello::op.code, 0, loading());
  EXPECT_EQ(w.core.last_confirmed(), confirmed);
}

TEST(ClientLoad, ManyClientsComeBackAtDifferentTimesAndAsOftenAsAHeartbeatIsDue) {
  std::set<Duration> pauses;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    World w(seed);
    begin_session(w);
    w.core.send_heartbeats(milliseconds(100), w.now);
    meet_loading(w);
    const Duration pause = say_hello_again(w);
    EXPECT_LE(pause, milliseconds(100)) << "the ttl of a membership is short";
    pauses.insert(pause);
  }
  EXPECT_GT(pauses.size(), 95U);
  EXPECT_GT(*pauses.rbegin() - *pauses.begin(), milliseconds(40));
}

TEST(ClientLoad, ComesBackToTheSameAddressAfterALostConnection) {
  World w(1, {"a:1", "b:1"});
  begin_session(w, seconds(30), {"a:1", "b:1"});
  const std::string address = w.core.address();
  meet_loading(w);
  w.core.closed("lost", w.now);
  EXPECT_EQ(w.core.address(), address);
  w.dial();
  EXPECT_EQ(w.only_sent().header.op, Hello::op.code);
}

TEST(ClientLoad, AHelloWithoutAnAnswerIsGivenUp) {
  World w;
  begin_session(w);
  meet_loading(w);
  say_hello_again(w);
  w.now += Core::kHelloPatience;
  w.core.tick(w.now);
  EXPECT_FALSE(w.core.wants_socket());
}

TEST(ClientLoad, ItsCallsSayHowFarTheLoadIs) {
  World w;
  w.core.call(Get{"k", {}}, seconds(3), w.now);
  w.dial();
  w.sent();
  w.reply(Hello::op.code, 0, loading());
  EXPECT_FALSE(w.core.probe_at()) << "it is a daemon";
  w.now += seconds(3);
  w.core.tick(w.now);
  const Failure reason = w.only_failure();
  EXPECT_EQ(reason.code, Code::timed_out);
  EXPECT_NE(reason.detail.find("is being loaded: 4 of 20 rows"), std::string::npos)
      << reason.detail;
}

TEST(ClientLoad, FromADaemonThatSaysOnlyUnavailableItReconnects) {
  World w;
  begin_session(w);
  w.core.closed("lost", w.now);
  w.dial();
  w.sent();
  Failure reason = loading();
  reason.loading = false;
  w.reply(Hello::op.code, 0, reason);
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_EQ(w.core.last_confirmed(), w.now);
}

}  // namespace
}  // namespace c10dd::client
