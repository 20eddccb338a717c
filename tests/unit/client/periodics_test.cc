// SPDX-License-Identifier: Apache-2.0
// The requests that a connection sends by itself: each has its own time, reply and reconnects.
#include "client/internal/periodics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "client/internal/connection.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeReply;
using Then = FakeReply::Then;

/// Replies to a Get with its key.
std::optional<FakeReply> with_key(const Sent& asked) {
  const auto* get = std::get_if<Get>(&asked.request);
  if (get == nullptr) return std::nullopt;
  return FakeReply{reply_to(asked, ReplyBody(Value{std::string(get->key)}))};
}

/// A Periodic that counts. The daemon gets Gets of its key.
struct CountedPeriodic {
  explicit CountedPeriodic(std::string key, Duration period = 1ms)
      : key_(std::move(key)), does{period, {}} {
    does.request = [this](bool first) -> std::optional<Request> {
      again += first;
      ++requests;
      return Request(Get{key_});
    };
    does.replied = [this](const Reply& reply) { reply ? ++replies : ++failures; };
  }

  std::string key_;
  Periodic does;
  std::atomic<int> again = 0;
  std::atomic<int> requests = 0;
  std::atomic<int> replies = 0;
  std::atomic<int> failures = 0;
};

TEST(PeriodicsTest, EachPeriodicRequestGetsItsReplyAndIsToldOfAReconnect) {
  std::atomic<bool> cut = false;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op == Get::op.code && cut.exchange(false)) return FakeReply{"", Then::close};
    return with_key(asked);
  });
  CountedPeriodic fast("fast");
  CountedPeriodic slow("slow", 5ms);
  Connection connection(at(daemon), {fast.does, slow.does});
  for (int connects = 1; connects <= 3; ++connects) {
    const int replies = slow.replies;
    EXPECT_TRUE(comes_true([&] {
      return fast.again == connects && slow.again == connects && slow.replies > replies + 2;
    }));
    cut = true;
    EXPECT_TRUE(comes_true([&] { return !cut; }));
  }
  connection.close({}, kLimit);
  EXPECT_EQ(fast.replies + fast.failures, fast.requests) << "once for each request";
  EXPECT_EQ(slow.replies + slow.failures, slow.requests);
}

TEST(PeriodicsTest, ARequestThatWaitsOrIsNotDueDelaysNoOther) {
  FakeDaemon daemon([](const Sent& asked) -> std::optional<FakeReply> {
    const auto* get = std::get_if<Get>(&asked.request);
    return get != nullptr && get->key == "held" ? FakeReply{} : with_key(asked);
  });
  CountedPeriodic held("held");
  CountedPeriodic hourly("hourly", 1h);
  CountedPeriodic fast("fast");
  Connection connection(at(daemon), {held.does, hourly.does, fast.does});
  EXPECT_TRUE(comes_true([&] { return fast.replies > 20; }));
  EXPECT_EQ(held.requests, 1);
  EXPECT_EQ(hourly.replies, 1);
  connection.close({}, kLimit);
  EXPECT_EQ(held.failures, 1) << "the connection was closed";
}

TEST(PeriodicsTest, APeriodicRequestWhoseReplyAnotherThreadReadsGetsIt) {
  FakeDaemon daemon(with_key);
  CountedPeriodic fast("fast");
  Connection connection(at(daemon), {fast.does});
  ASSERT_TRUE(connection.wait_open(kLimit));
  EXPECT_TRUE(comes_true([&] {
    EXPECT_TRUE(connection.call(Get{"k"}, kLimit));
    return fast.replies > 20;
  }));
}

TEST(PeriodicsTest, NoPeriodicRequestIsMadeWithoutASession) {
  std::atomic<int> hellos = 0;
  std::atomic<bool> welcome = false;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != Hello::op.code) return with_key(asked);
    ++hellos;
    if (welcome) return std::nullopt;
    return FakeReply{reply_to(asked, failure(Code::unavailable, "the engine is closed")),
                     Then::close};
  });
  CountedPeriodic fast("fast");
  Connection connection(at(daemon), {fast.does});
  EXPECT_TRUE(comes_true([&] { return hellos > 2; }));
  EXPECT_EQ(fast.requests, 0);
  welcome = true;
  EXPECT_TRUE(comes_true([&] { return fast.replies > 0; }));
}

TEST(PeriodicsTest, APeriodicThatIsNotWantedIsNotAskedAndKeepsTheReconnect) {
  std::atomic<bool> wanted = false;
  FakeDaemon daemon(with_key);
  CountedPeriodic fast("fast");
  fast.does.wanted = [&] { return wanted.load(); };
  Connection connection(at(daemon), {fast.does});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(connection.call(Get{"k"}, kLimit));
  EXPECT_EQ(fast.requests, 0);
  wanted = true;
  EXPECT_TRUE(comes_true([&] { return fast.replies > 0; }));
  EXPECT_EQ(fast.again, 1);
}
}  // namespace
}  // namespace c10dd::client
