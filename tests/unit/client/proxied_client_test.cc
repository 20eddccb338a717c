// SPDX-License-Identifier: Apache-2.0
// One client of TCPStore behind a proxy, between the bytes of the client and the frames for the
// daemon: order, waits that are cancelled, lost connections, ends.
#include "client/core/proxied_client.h"

#include <gtest/gtest.h>

#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using tcpstore::Dialect;
using tcpstore::Message;
using tcpstore::Query;

CoreOptions options() {
  CoreOptions of;
  of.addresses = {"host:29500"};
  of.hello.job = "job";
  of.hello.host = "node";
  return of;
}

/// Both ends of a client of the proxy.
struct Ends {
  explicit Ends(Dialect its = Dialect::v) : dialect(its) {
    if (dialect == Dialect::v) {
      send({.query = Query::validate, .number = tcpstore::kMagic});
      send({.query = Query::ping, .number = 42});
      EXPECT_EQ(out(), Bytes("\x2a\0\0\0", 4));
    }
  }

  void send(const Message& message) {
    encode_message(in, dialect, message);
    go_on();
  }
  void go_on() { in.erase(0, client.take(in, now)); }
  Bytes out() { return client.take_output(); }

  Core& core() { return *client.core(); }
  std::vector<Sent> sent() { return frames_of(core(), now); }
  void connect() {
    now = std::max(now, *core().dial_at());
    core().dialling();
    core().connected(now);
    const auto hello = sent();
    ASSERT_EQ(hello.size(), 1u);
    EXPECT_EQ(std::get<Hello>(hello[0].request).pid, dialect == Dialect::v ? 42u : 0u);
    EXPECT_TRUE(std::get<Hello>(hello[0].request).c10d);
    core().received(World::bytes(Hello::op.code, 0, World::welcome()), now);
    client.settle(now);
  }
  void reply(const Sent& to, const Reply& with) {
    core().received(World::bytes(to.header.op, to.header.sequence, with), now);
    client.settle(now);
    go_on();
  }
  void lose() {
    core().closed("it closed the connection", now);
    client.settle(now);
  }

  Dialect dialect;
  ProxiedClient client{options(), tcpstore::LegacyClients::detect};
  TimePoint now;
  Bytes in;
};

Bytes number(std::int64_t value) {
  Bytes bytes;
  tcpstore::put_number(bytes, value);
  return bytes;
}
Bytes text(std::string_view value) {
  Bytes bytes;
  tcpstore::put_text(bytes, value);
  return bytes;
}
Reply counter(std::int64_t value) { return ReplyBody(Counter{value}); }
Message add(std::string_view key) { return {.query = Query::add, .key = key, .number = 1}; }
Message wait_for(std::string_view key) { return {.query = Query::wait, .keys = {key}}; }

TEST(ProxiedClient, NeedsNoSessionBeforeTheFirstRequest) {
  Ends ends;
  EXPECT_EQ(ends.client.core(), nullptr);
  EXPECT_EQ(ends.client.pid(), 42u);
  ends.client.leave(ends.now);
  EXPECT_TRUE(ends.client.done());
}

TEST(ProxiedClient, SendsAChangeAgainWithTheSameSequenceAndRepliesOnce) {
  Ends ends;
  ends.send(add("n"));
  ends.connect();
  const auto first = ends.sent();
  ASSERT_EQ(first.size(), 1u);
  ends.lose();
  EXPECT_EQ(ends.client.over(), nullptr);
  EXPECT_EQ(ends.client.unanswered(), 1u);
  ends.connect();
  const auto again = ends.sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].header.sequence, first[0].header.sequence);
  ends.reply(again[0], counter(7));
  EXPECT_EQ(ends.out(), number(7));
  EXPECT_EQ(ends.client.unanswered(), 0u);
}

TEST(ProxiedClient, RepliesInTheOrderOfTheMessages) {
  Ends ends;
  ends.send(add("a"));
  ends.send(add("b"));
  ends.connect();
  const auto frames = ends.sent();
  ASSERT_EQ(frames.size(), 2u);
  ends.reply(frames[1], counter(2));
  EXPECT_EQ(ends.out(), "");
  ends.reply(frames[0], counter(1));
  EXPECT_EQ(ends.out(), number(1) + number(2));
}

TEST(ProxiedClient, AWaitThatIsCancelledWhileTheDaemonIsAwayIsAnsweredHere) {
  Ends ends;
  ends.send(wait_for("k"));
  EXPECT_TRUE(ends.client.waits());
  ends.send({.query = Query::cancel_wait});
  EXPECT_EQ(ends.out(), Bytes(1, static_cast<char>(tcpstore::kWaitCancelled)));
  EXPECT_FALSE(ends.client.waits());
  ends.send(add("n"));
  ends.connect();
  const auto frames = ends.sent();
  ASSERT_EQ(frames.size(), 1u) << "the wait was never sent";
  EXPECT_TRUE(std::holds_alternative<Add>(frames[0].request));
}

TEST(ProxiedClient, AWaitThatIsCancelledOnTheWireIsCancelledThereToo) {
  Ends ends;
  ends.send(wait_for("k"));
  ends.connect();
  const auto wait = ends.sent();
  ASSERT_EQ(wait.size(), 1u);
  ends.send({.query = Query::cancel_wait});
  EXPECT_EQ(ends.out(), Bytes(1, static_cast<char>(tcpstore::kWaitCancelled)));
  const auto cancel = ends.sent();
  ASSERT_EQ(cancel.size(), 1u);
  EXPECT_EQ(std::get<Cancel>(cancel[0].request).sequence, wait[0].header.sequence);
  ends.reply(wait[0], ReplyBody(Done{}));
  EXPECT_EQ(ends.out(), "") << "a reply that comes too late";
}

TEST(ProxiedClient, TakesNothingElseWhileItWaits) {
  Ends ends;
  ends.send(wait_for("k"));
  ends.send(add("n"));
  ends.connect();
  const auto wait = ends.sent();
  ASSERT_EQ(wait.size(), 1u);
  ends.reply(wait[0], ReplyBody(Done{}));
  EXPECT_EQ(ends.out(), Bytes(1, '\0'));
  const auto after = ends.sent();
  ASSERT_EQ(after.size(), 1u);
  ends.reply(after[0], counter(1));
  EXPECT_EQ(ends.out(), number(1));
}

TEST(ProxiedClient, AnOldClientGivesAWaitUpByItsNextMessage) {
  Ends ends(Dialect::l0);
  ends.send(wait_for("k"));
  ends.connect();
  const auto wait = ends.sent();
  ASSERT_EQ(wait.size(), 1u);
  ends.send({.query = Query::get, .key = "other"});
  EXPECT_FALSE(ends.client.waits());
  const auto after = ends.sent();
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(std::get<Cancel>(after[0].request).sequence, wait[0].header.sequence);
  ends.reply(after[1], ReplyBody(Value{"v", 1}));
  EXPECT_EQ(ends.out(), text("v"));
}

TEST(ProxiedClient, SaysGoodbyeForAClientThatHasGone) {
  Ends ends;
  ends.send(wait_for("k"));
  ends.connect();
  static_cast<void>(ends.sent());
  ends.client.leave(ends.now);
  EXPECT_FALSE(ends.client.done());
  const auto last = ends.sent();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Cancel>(last[0].request));
  EXPECT_TRUE(std::holds_alternative<Goodbye>(last[1].request));
  ends.reply(last[1], ReplyBody(Done{}));
  EXPECT_TRUE(ends.client.done());
}

TEST(ProxiedClient, MakesTheLastChangeOfAClientThatHasGoneBeforeTheSessionWasOpen) {
  Ends ends;
  ends.send({.query = Query::set, .key = "k", .value = "v"});
  ends.client.leave(ends.now);
  EXPECT_FALSE(ends.client.done());
  ends.connect();
  const auto last = ends.sent();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Set>(last[0].request));
  EXPECT_TRUE(std::holds_alternative<Goodbye>(last[1].request));
  ends.reply(last[0], ReplyBody(Written{1}));
  EXPECT_FALSE(ends.client.done());
  ends.reply(last[1], ReplyBody(Done{}));
  EXPECT_TRUE(ends.client.done());
}

TEST(ProxiedClient, WantsNoInputBeyondAMessageThatWaits) {
  Ends ends;
  ends.send(wait_for("k"));
  EXPECT_TRUE(ends.client.wants_input(0));
  EXPECT_FALSE(ends.client.wants_input(limits::kSmallFrameBytes));
}

TEST(ProxiedClient, EndsWithTheReasonWhenItsSessionHasExpired) {
  Ends ends;
  ends.send(wait_for("k"));
  ends.connect();
  static_cast<void>(ends.sent());
  ends.lose();
  ends.now = std::max(ends.now, *ends.core().dial_at());
  ends.core().dialling();
  ends.core().connected(ends.now);
  static_cast<void>(ends.sent());
  ends.core().received(World::bytes(Hello::op.code, 0, failure(Code::session_expired, "gone")),
                       ends.now);
  ends.client.settle(ends.now);
  ASSERT_NE(ends.client.over(), nullptr);
  EXPECT_EQ(ends.client.over()->code, Code::session_expired);
}

TEST(ProxiedClient, EndsWhenAChangeIsRefused) {
  Ends ends;
  ends.send({.query = Query::set, .key = "k", .value = "v"});
  ends.connect();
  const auto set = ends.sent();
  ASSERT_EQ(set.size(), 1u);
  ends.reply(set[0], failure(Code::quota_exceeded, "too many keys"));
  ASSERT_NE(ends.client.over(), nullptr);
  EXPECT_EQ(ends.client.over()->detail, "too many keys");
  EXPECT_FALSE(ends.client.wants_input(0));
}

TEST(ProxiedClient, RefusesAMessageThatNoFrameFits) {
  Ends ends;
  const Bytes value(6 * 1024 * 1024, 'x');
  ends.send({.query = Query::multi_set, .keys = {"a", "b", "c"}, .values = {value, value, value}});
  ends.connect();
  EXPECT_TRUE(ends.sent().empty());
  ends.client.settle(ends.now);
  ASSERT_NE(ends.client.over(), nullptr);
  EXPECT_EQ(ends.client.over()->code, Code::too_large);
  EXPECT_NE(ends.client.over()->detail.find("multi_set: request too large: 188"), std::string::npos)
      << ends.client.over()->detail;
}

TEST(ProxiedClient, HasOneValueUnderWayAtATime) {
  Ends ends;
  for (int i = 0; i < 5; ++i) ends.send({.query = Query::get, .key = "k"});
  ends.connect();
  for (int i = 0; i < 5; ++i) {
    const auto get = ends.sent();
    ASSERT_EQ(get.size(), 1u);
    ends.reply(get[0], ReplyBody(Value{"v", 1}));
  }
  EXPECT_EQ(ends.out(), text("v") + text("v") + text("v") + text("v") + text("v"));
}

TEST(ProxiedClient, StopsReadingAtTheWindow) {
  Ends ends;
  std::size_t sent = 0;
  while (ends.client.wants_input(0) && sent < 10'000) {
    ends.send({.query = Query::set, .key = "k", .value = "v"});
    ++sent;
  }
  EXPECT_EQ(sent, limits::kSessionWindow);
  ends.connect();
  for (const Sent& one : ends.sent()) ends.reply(one, ReplyBody(Written{1}));
  EXPECT_TRUE(ends.client.wants_input(0));
}

}  // namespace
}  // namespace c10dd::client
