// SPDX-License-Identifier: Apache-2.0
// Losing the daemon and coming back: refusals, redirects, silence, back-off, determinism.
#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Failure with_retry(Code code, std::string detail, Duration retry_after = Duration{0}) {
  Failure reason = failure(code, std::move(detail));
  reason.retry_after = retry_after;
  return reason;
}

TEST(ClientCore, UnavailableIsNoAnswerButAReasonToComeBackLater) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.reply(Set::op.code, 1, with_retry(Code::unavailable, "draining", milliseconds(200)));
  EXPECT_TRUE(w.core.take_completions().empty());
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_GE(*w.core.dial_at(), w.now + milliseconds(200));
  w.open();
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, ARefusalWithoutEndDoesNotSpin) {
  World w;
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  for (int i = 0; i < 40; ++i) {
    w.open();
    w.sent();
    w.reply(Set::op.code, 1, with_retry(Code::unavailable, "engine lost"));
  }
  EXPECT_GT(w.now - TimePoint(), seconds(10));
}

TEST(ClientCore, AnUnknownSessionIsOpenedAgain) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.reply(Set::op.code, 1, failure(Code::session_unknown, "no session"));
  EXPECT_TRUE(w.core.take_completions().empty());
  w.open();
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, SupersededOnceReconnectsAgainAndAgainFails) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  for (int i = 0; i < 3; ++i) {
    w.reply(Hello::op.code, 0, failure(Code::session_superseded, "opened elsewhere"));
    EXPECT_TRUE(w.core.take_completions().empty());
    w.open();
  }
  w.reply(Hello::op.code, 0, failure(Code::session_superseded, "opened elsewhere"));
  EXPECT_EQ(w.only_failure().code, Code::session_superseded);
}

class FinalRefusal : public testing::TestWithParam<Code> {};

TEST_P(FinalRefusal, FailsPendingAndLaterCalls) {
  World w;
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.dial();
  w.sent();
  w.reply(Hello::op.code, 0, failure(GetParam(), "no"));
  EXPECT_EQ(w.only_failure().code, GetParam());
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_FALSE(w.core.dial_at().has_value());
  EXPECT_EQ(w.core.over()->code, GetParam());
  w.core.call(Set{"b", "1"}, kLimit, w.now);
  EXPECT_EQ(w.only_failure().detail, "no");
}

INSTANTIATE_TEST_SUITE_P(Codes, FinalRefusal,
                         testing::Values(Code::state_rolled_back, Code::version_unsupported,
                                         Code::permission_denied, Code::invalid_argument,
                                         Code::quota_exceeded),
                         [](const auto& code) { return std::string(name_of(code.param)); });

TEST(ClientCore, WhoWasInWaitsForAPlace) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.core.closed("connection reset", w.now);
  w.dial();
  w.reply(Hello::op.code, 0, failure(Code::quota_exceeded, "too many connections"));
  EXPECT_TRUE(w.core.take_completions().empty());
  EXPECT_FALSE(w.core.over().has_value());
  w.open();
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, AnOpenSessionThatEndsIsOpenedAgainWhateverTheReason) {
  World w;
  w.open();
  w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
  w.sent();
  w.reply(Hello::op.code, 0, failure(Code::malformed, "no frame"));
  EXPECT_TRUE(w.core.take_completions().empty());
  EXPECT_FALSE(w.core.over().has_value());
  w.open();
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, FollowsRedirectsAndComesBackWhenTheyAreDead) {
  World w;
  w.dial();
  Failure elsewhere = failure(Code::not_owner, "another daemon owns the job");
  elsewhere.addresses = {"second:1", "third:1"};
  w.reply(Hello::op.code, 0, elsewhere);
  EXPECT_EQ(w.core.address(), "second:1");
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now);
  EXPECT_EQ(w.core.address(), "third:1");
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now);
  EXPECT_EQ(w.core.address(), "host:29500");
}

TEST(ClientCore, FollowsNoRedirectToWhatIsNoAddress) {
  World w;
  w.dial();
  Failure elsewhere = failure(Code::not_owner, "another daemon owns the job");
  elsewhere.addresses = {"", "nowhere", ":1", "host:", "a\nb:1", std::string(999, 'a') + ":1"};
  w.reply(Hello::op.code, 0, elsewhere);
  EXPECT_EQ(w.core.address(), "host:29500");
  elsewhere.addresses.clear();
  for (int i = 1; i <= 100'000; ++i) elsewhere.addresses.push_back("h:" + std::to_string(i));
  w.dial();
  w.reply(Hello::op.code, 0, elsewhere);
  int dialled = 0;
  for (; w.core.address() != "host:29500"; ++dialled) {
    w.core.dialling();
    w.core.closed("connect: connection refused", w.now);
  }
  EXPECT_EQ(dialled, 16) << "then its own address again";
}

TEST(ClientCore, HeartbeatsComeAtTheIntervalOfTheWelcome) {
  World w;
  w.open();
  const TimePoint opened = w.now;
  for (int beat = 1; beat <= 5; ++beat) {
    w.core.tick(w.now);
    EXPECT_TRUE(w.sent().empty());
    w.now = opened + beat * limits::kHeartbeatInterval;
    EXPECT_EQ(w.core.next_deadline(), w.now);
    w.core.tick(w.now);
    EXPECT_EQ(w.sent().size(), 1u);
    w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  }
}

TEST(ClientCore, ARequestStandsForOneHeartbeatUnlessItIsAnswered) {
  World w;
  w.open();
  const auto beats = [&] {
    w.now += limits::kHeartbeatInterval;
    w.core.tick(w.now);
    const std::vector<Sent> frames = w.sent();
    if (!frames.empty()) w.reply(Ping::op.code, 0, ReplyBody(Done{}));
    return frames.size() == 1 && frames[0].header.op == Ping::op.code;
  };
  w.core.call(Get{"first", seconds(60)}, kLimit, w.now);
  w.sent();
  EXPECT_TRUE(beats()) << "the first after a hello";
  w.core.call(Get{"a", seconds(60)}, kLimit, w.now);
  EXPECT_EQ(w.sent().size(), 1u);
  EXPECT_FALSE(beats());
  EXPECT_TRUE(beats()) << "one that waits for long";
  EXPECT_TRUE(beats());
  for (bool beat : {false, true, false, true}) {
    w.core.call(Get{"b", seconds(60)}, kLimit, w.now);
    w.sent();
    EXPECT_EQ(beats(), beat) << "no two in turn, whatever is asked";
  }
  w.core.call(QueuePop{"q"}, kLimit, w.now);
  w.reply(QueuePop::op.code, w.sent().at(0).header.sequence, item("x"));
  EXPECT_TRUE(beats()) << "an answer is acknowledged at once";
  w.core.call(Set{"a", Bytes(limits::kFrameBytes, 'x')}, kLimit, w.now);
  EXPECT_TRUE(beats()) << "what is refused here was not sent";
}

TEST(ClientCore, ASilentDaemonIsLeftAfterTheSessionTtl) {
  World w;
  w.open();
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  ASSERT_EQ(w.sent().size(), 1u);
  const TimePoint asked = w.now;
  while (w.core.open()) {
    ASSERT_LE(w.now, asked + limits::kSessionTtl);
    w.now = *w.core.next_deadline();
    w.core.tick(w.now);
  }
  EXPECT_EQ(w.now, asked + limits::kSessionTtl);
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_NE(w.core.absence(w.now).find("it has sent nothing for 2.5 s"), std::string::npos);
}

TEST(ClientCore, AnyByteIsASignOfLife) {
  World w;
  w.open();
  const Bytes pong = World::bytes(Ping::op.code, 0, ReplyBody(Done{}));
  for (int i = 0; i < 40; ++i) {
    w.now += limits::kHeartbeatInterval;
    w.core.tick(w.now);
    w.sent();
    w.core.received(
        pong.substr(static_cast<std::size_t>(i % 2) * 10, i % 2 == 0 ? 10 : pong.size()), w.now);
    ASSERT_TRUE(w.core.open());
  }
}

TEST(ClientCore, ProgressOfALargeWriteIsASignOfLife) {
  World w;
  w.open();
  w.core.call(Set{"a", Bytes(8'000'000, 'x')}, kLimit, w.now);
  for (int i = 0; i < 60; ++i) {
    w.core.written(100'000, w.now);
    w.now += limits::kHeartbeatInterval;
    w.core.tick(w.now);
    ASSERT_TRUE(w.core.open()) << i;
  }
}

TEST(ClientCore, ADaemonThatDoesNotGreetIsLeft) {
  World w;
  w.dial();
  w.now = *w.core.next_deadline();
  w.core.tick(w.now);
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_NE(w.core.absence(w.now).find("did not answer the hello"), std::string::npos);
}

TEST(ClientCore, TheFirstAttemptAfterALossIsNearlyAtOnceLaterOnesSpread) {
  Backoff backoff(5);
  EXPECT_LE(backoff.next(), Backoff::kFirst);
  Duration longest{0};
  for (int i = 0; i < 200; ++i) {
    const Duration delay = backoff.next();
    EXPECT_GE(delay, Duration::zero());
    EXPECT_LE(delay, Backoff::kCap);
    longest = std::max(longest, delay);
  }
  EXPECT_GT(longest, Backoff::kCap / 2);
  backoff.reset();
  EXPECT_LE(backoff.next(), Backoff::kFirst);
}

/// A session with losses, waits and time-outs: all bytes that it wrote and when it dialled.
std::pair<Bytes, std::vector<TimePoint>> trace(std::uint64_t seed) {
  World w(seed);
  std::vector<TimePoint> dials;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    if (!w.core.open()) {
      for (std::uint64_t tries = 0; tries < i % 4; ++tries) {
        dials.push_back(*w.core.dial_at());
        w.now = *w.core.dial_at();
        w.core.dialling();
        w.core.closed("refused", w.now);
      }
      w.open();
      dials.push_back(w.now);
    }
    w.core.call(Set{"k" + std::to_string(i), "v"}, kLimit, w.now);
    w.core.call(Get{"g", seconds(2)}, kLimit, w.now);
    w.sent();
    w.reply(Set::op.code, 2 * i - 1, ReplyBody(Written{i}));
    w.now += milliseconds(137);
    w.core.tick(w.now);
    if (i % 7 == 0) w.core.closed("gone", w.now);
  }
  return {w.log, dials};
}

TEST(ClientCore, EqualSeedsGiveEqualBytesAndTimes) {
  EXPECT_EQ(trace(42), trace(42));
  EXPECT_NE(trace(42).second, trace(43).second);
}

}  // namespace
}  // namespace c10dd::client
