// SPDX-License-Identifier: Apache-2.0
// Tests the connection of a client, with its thread and its socket, over a daemon that replies
// late, in another order, wrongly, in parts or not at all.
#include "client/internal/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "protocol/ops.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/slowdown.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeReply;
using Then = FakeReply::Then;
using Clock = std::chrono::steady_clock;

constexpr Duration kPatience = 60s;

Reply value(const std::string& text) { return ReplyBody(Value{text}); }

std::string text_in(const Reply& reply) {
  return reply ? std::string(std::get<Value>(*reply).value) : reply.error().detail;
}

/// Replies to a Get with its key.
std::optional<FakeReply> echo(const Sent& asked) {
  const auto* get = std::get_if<Get>(&asked.request);
  if (get == nullptr) return std::nullopt;
  return FakeReply{reply_to(asked, value(std::string(get->key)))};
}

TEST(ConnectionTest, ARequestThatFillsTheSocketGoesOnAsSoonAsThereIsRoom) {
  constexpr int kRequests = 30;
  FakeDaemon daemon(
      [](const Sent& asked) -> std::optional<FakeReply> {
        if (asked.header.op != Set::op.code) return std::nullopt;
        return FakeReply{reply_to(asked, ReplyBody(Written{1}))};
      },
      64 * 1024);
  Connection connection(at(daemon));
  ASSERT_TRUE(connection.wait_open(kPatience));
  const Bytes large(limits::kValueBytes, 'v');
  // A thread that was not told of the full socket would look at it when its next heartbeat is due,
  // which is seen only in the sum of many requests.
  const auto begin = Clock::now();
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(connection.call(Set{"k", large}, kPatience));
  }
  EXPECT_LT(Clock::now() - begin, kRequests * 250ms * test::kSlowdown);
}

TEST(ConnectionTest, RepliesInAnotherOrderReachTheirCallers) {
  std::string held;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    auto reply = echo(asked);
    if (!reply) return std::nullopt;
    if (held.empty()) {
      held = reply->bytes;
      return FakeReply{};
    }
    return FakeReply{reply->bytes + std::exchange(held, "")};
  });
  Connection connection(at(daemon));
  for (int round = 0; round < 20; ++round) {
    auto first =
        std::async(std::launch::async, [&] { return connection.call(Get{"a"}, kPatience); });
    EXPECT_EQ(text_in(connection.call(Get{"b"}, kPatience)), "b");
    EXPECT_EQ(text_in(first.get()), "a");
  }
}

TEST(ConnectionTest, AReplyThatComesTooLateIsDropped) {
  std::string late;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    auto reply = echo(asked);
    if (!reply) return std::nullopt;
    if (std::get<Get>(asked.request).key == "late") {
      late += reply->bytes;
      return FakeReply{};
    }
    return FakeReply{std::exchange(late, "") + reply->bytes};
  });
  Connection connection(at(daemon));
  ASSERT_TRUE(connection.wait_open(kPatience));
  for (int round = 0; round < 5; ++round) {
    const Reply reply = connection.call(Get{"late"}, 20ms);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Code::timed_out);
    EXPECT_EQ(text_in(connection.call(Get{"next"}, kPatience)), "next");
  }
  EXPECT_EQ(connection.stats().connects, 1u);
}

TEST(ConnectionTest, AChangeWhoseReplyIsCutAtAnyByteIsAskedAgainUnderItsSequence) {
  std::size_t cut = 0;
  std::size_t whole = 1;
  std::vector<std::uint64_t> sequences;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != Add::op.code) return std::nullopt;
    sequences.push_back(asked.header.sequence);
    const Bytes reply = reply_to(asked, ReplyBody(Counter{7}));
    whole = reply.size();
    if (sequences.size() == 1) return FakeReply{reply.substr(0, cut), Then::close};
    return FakeReply{reply};
  });
  for (; cut < whole; ++cut) {
    sequences.clear();
    Connection connection(at(daemon));
    const Reply reply = connection.call(Add{"n", 1}, kPatience);
    ASSERT_TRUE(reply) << reply.error().detail;
    EXPECT_EQ(std::get<Counter>(*reply).value, 7);
    ASSERT_EQ(sequences.size(), 2u) << "cut at " << cut;
    EXPECT_EQ(sequences[0], sequences[1]);
    EXPECT_EQ(connection.stats().connects, 2u);
  }
}

TEST(ConnectionTest, AReplyOfAnotherOperationEndsTheConnectionNotTheCall) {
  std::atomic<int> lies = 0;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != Get::op.code || lies++ > 0) return echo(asked);
    return FakeReply{World::bytes(Add::op.code, asked.header.sequence, ReplyBody(Counter{1}))};
  });
  Connection connection(at(daemon));
  EXPECT_EQ(text_in(connection.call(Get{"k"}, kPatience)), "k");
  EXPECT_EQ(connection.stats().connects, 2u);
}

TEST(ConnectionTest, ADaemonThatRefusesFirstServesLater) {
  std::atomic<int> hellos = 0;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != Hello::op.code) return echo(asked);
    switch (hellos++) {
      case 0:
        return FakeReply{"", Then::close};
      case 1:
        return FakeReply{reply_to(asked, failure(Code::unavailable, "the engine is closed")),
                         Then::close};
      default:
        return std::nullopt;
    }
  });
  Connection connection(at(daemon));
  EXPECT_EQ(text_in(connection.call(Get{"k"}, kPatience)), "k");
  EXPECT_EQ(hellos, 3);
}

TEST(ConnectionTest, ManyCallersShareOneConnection) {
  constexpr int kCallers = 16;
  constexpr int kCalls = 200;
  FakeDaemon daemon(echo);
  Connection connection(at(daemon));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string key = std::to_string(caller) + "/" + std::to_string(i);
        if (text_in(connection.call(Get{key}, kPatience)) != key) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  const CoreStats stats = connection.stats();
  EXPECT_EQ(stats.connects, 1u);
  EXPECT_EQ(stats.calls, static_cast<std::uint64_t>(kCallers * kCalls));
}

TEST(ConnectionTest, AnotherThreadEndsACallThatWaits) {
  std::promise<void> asked_for;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != WatchGroup::op.code) return echo(asked);
    asked_for.set_value();
    return FakeReply{};
  });
  Connection connection(at(daemon));
  Recall recall;
  auto watch = std::async(std::launch::async, [&] {
    return connection.call(WatchGroup{"g", 0, kPatience}, kPatience, &recall);
  });
  asked_for.get_future().get();
  connection.recall(recall, failure(Code::closed, "the watch has ended"));
  ASSERT_EQ(watch.wait_for(kPatience / 2), std::future_status::ready);
  EXPECT_EQ(watch.get().error().detail, "the watch has ended");
  EXPECT_EQ(connection.call(WatchGroup{"g", 0, kPatience}, kPatience, &recall).error().code,
            Code::closed)
      << "a later call, too";
  EXPECT_EQ(text_in(connection.call(Get{"k"}, kPatience)), "k");
}

TEST(ConnectionTest, CloseSendsItsLastCallsAndDoesNotWaitLonger) {
  std::atomic<bool> said_goodbye = false;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op == Hello::op.code) return std::nullopt;
    said_goodbye = said_goodbye || asked.header.op == Goodbye::op.code;
    return FakeReply{};
  });
  Connection connection(at(daemon));
  ASSERT_TRUE(connection.wait_open(kPatience));
  auto waiting = std::async(std::launch::async, [&] {
    return connection.call(Wait{{"never"}, kPatience}, kPatience);
  });
  EXPECT_TRUE(comes_true([&] { return connection.stats().calls == 1; }));
  connection.close({Goodbye{}}, 50ms);
  EXPECT_TRUE(said_goodbye);
  EXPECT_EQ(waiting.get().error().code, Code::closed);
  EXPECT_EQ(connection.call(Get{"k"}, kPatience).error().code, Code::closed);
  EXPECT_FALSE(connection.open());
}

}  // namespace
}  // namespace c10dd::client
