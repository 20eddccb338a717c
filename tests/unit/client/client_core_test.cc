// SPDX-License-Identifier: Apache-2.0
// Calls of a session: their order, window, acknowledgement, deadlines, and the bytes of answers.
#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ClientCore, GreetsWithMagicAndHelloThenSendsCallsInOrder) {
  World w;
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.core.call(Get{"b", seconds(5)}, kLimit, w.now);
  EXPECT_TRUE(w.core.output().empty());
  w.dial();
  EXPECT_TRUE(w.core.output().starts_with(native::kMagic));
  std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.sequence, 0u);
  EXPECT_EQ(frames[0].header.channel, Core::kChannel);
  w.reply(Hello::op.code, 0, World::welcome());
  frames = w.sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].header.sequence, 1u);
  EXPECT_EQ(frames[1].header.sequence, 2u);
  EXPECT_EQ(std::get<Set>(frames[0].request).key, "a");
  w.reply(Set::op.code, 1, ReplyBody(Written{4}));
  const std::vector<Completion> done = w.core.take_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].call, 1u);
  EXPECT_EQ(std::get<Written>(*done[0].reply).revision, 4u);
}

TEST(ClientCore, SendsUnansweredCallsAgainInOrderWithTheirRemainingTime) {
  World w;
  w.open();
  w.core.call(Add{"n", 1}, kLimit, w.now);
  w.core.call(Get{"k", seconds(10)}, kLimit, w.now);
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  ASSERT_EQ(w.sent().size(), 3u);
  w.reply(Set::op.code, 3, ReplyBody(Written{1}));
  w.now += seconds(1);
  w.core.closed("connection reset", w.now);
  w.now += seconds(3);
  w.open();
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].header.sequence, 1u);
  EXPECT_EQ(frames[1].header.sequence, 2u);
  const Duration remaining = std::get<Get>(frames[1].request).timeout;
  EXPECT_LE(remaining, seconds(6));
  EXPECT_GT(remaining, seconds(5));
  EXPECT_EQ(remaining + std::get<Get>(frames[1].request).waited, seconds(10));
  EXPECT_EQ(w.core.stats(w.now).reissued, 2u);
  EXPECT_EQ(w.core.stats(w.now).connects, 2u);
  EXPECT_GE(w.core.stats(w.now).away, seconds(3));
}

TEST(ClientCore, CallsMadeWhileAwayAreNotCountedAsReissued) {
  World w;
  w.open();
  w.core.closed("gone", w.now);
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.open();
  EXPECT_EQ(w.sent().size(), 1u);
  EXPECT_EQ(w.core.stats(w.now).reissued, 0u);
}

TEST(ClientCore, HelloCarriesTheNewestStampSeen) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.core.call(Set{"b", "1"}, kLimit, w.now);
  w.sent();
  w.reply(Set::op.code, 1, ReplyBody(Written{9}), {7, 2, 9});
  w.reply(Set::op.code, 2, ReplyBody(Written{8}), {7, 2, 8});
  w.core.closed("gone", w.now);
  w.dial();
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(std::get<Hello>(frames[0].request).seen, (Stamp{7, 2, 9}));
}

TEST(ClientCore, AcknowledgesBelowTheOldestUnansweredWrite) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.core.call(Set{"b", "1"}, kLimit, w.now);
  for (const Sent& frame : w.sent()) EXPECT_EQ(frame.header.acked_below, 1u);
  w.reply(Set::op.code, 2, ReplyBody(Written{1}));
  w.core.call(Check{{"a"}}, kLimit, w.now);
  EXPECT_EQ(w.sent().at(0).header.acked_below, 1u);
  w.reply(Set::op.code, 1, ReplyBody(Written{1}));
  w.now += limits::kHeartbeatInterval;
  w.core.tick(w.now);
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.op, Ping::op.code);
  EXPECT_EQ(frames[0].header.sequence, 0u);
  EXPECT_EQ(frames[0].header.acked_below, 4u) << "an idle session leaves no reply stored";
}

TEST(ClientCore, AWaitHoldsBackNeitherAcknowledgementNorWindow) {
  World w;
  w.open(4);
  w.core.call(Get{"never", seconds(300)}, kLimit, w.now);
  EXPECT_EQ(w.sent().size(), 1u);
  for (std::uint64_t sequence = 2; sequence < 100; ++sequence) {
    w.core.call(Set{"a", "1"}, kLimit, w.now);
    const std::vector<Sent> frames = w.sent();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].header.acked_below, sequence);
    w.reply(Set::op.code, sequence, ReplyBody(Written{1}));
  }
  EXPECT_EQ(w.core.take_completions().size(), 98u);
}

TEST(ClientCore, QueuesCallsBeyondTheWindow) {
  World w;
  w.open(2);
  for (int i = 0; i < 5; ++i) w.core.call(Set{"a", "1"}, kLimit, w.now);
  EXPECT_EQ(w.sent().size(), 2u);
  w.reply(Set::op.code, 2, ReplyBody(Written{1}));
  EXPECT_EQ(w.sent().size(), 0u) << "sequence 3 is a window away from the oldest, 1";
  w.reply(Set::op.code, 1, ReplyBody(Written{1}));
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].header.sequence, 3u);
  EXPECT_EQ(frames[1].header.sequence, 4u);
}

TEST(ClientCore, WaitsFillTheWindowByTheirNumber) {
  World w;
  w.open(2);
  for (int i = 0; i < 3; ++i) w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
  EXPECT_EQ(w.sent().size(), 2u);
  w.reply(Get::op.code, 2, ReplyBody(Value{"v"}));
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, AnAnswerToWhatWasNotYetAskedIsNoAnswer) {
  World w;
  w.open(1);
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.core.call(Set{"b", "1"}, kLimit, w.now);
  w.sent();
  w.reply(Set::op.code, 2, ReplyBody(Written{1}));
  EXPECT_TRUE(w.core.take_completions().empty());
  w.reply(Set::op.code, 1, ReplyBody(Written{1}));
  EXPECT_EQ(w.sent().size(), 1u);
}

TEST(ClientCore, AGivenUpWriteIsAcknowledgedAndItsLateReplyDropped) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, milliseconds(300), w.now);
  w.sent();
  w.now += milliseconds(300);
  w.core.tick(w.now);
  const Failure reason = w.only_failure();
  EXPECT_EQ(reason.code, Code::timed_out);
  EXPECT_NE(reason.detail.find("it may or may not have been applied"), std::string::npos);
  w.core.call(Set{"b", "1"}, kLimit, w.now);
  EXPECT_EQ(w.sent().at(0).header.acked_below, 2u);
  w.reply(Set::op.code, 1, ReplyBody(Written{1}));
  EXPECT_TRUE(w.core.take_completions().empty());
  EXPECT_TRUE(w.core.open());
}

TEST(ClientCore, AGivenUpCallIsNotSentAgain) {
  World w;
  w.core.call(Set{"a", "1"}, milliseconds(100), w.now);
  w.now += milliseconds(100);
  w.core.tick(w.now);
  EXPECT_EQ(w.only_failure().detail.find("whether"), std::string::npos) << "it was never sent";
  w.open();
  EXPECT_TRUE(w.sent().empty());
}

TEST(ClientCore, TheDaemonsOwnTimeoutWinsWithinTheGrace) {
  World w;
  w.open();
  w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
  w.sent();
  w.now += seconds(5);
  w.core.tick(w.now);
  w.sent();
  EXPECT_TRUE(w.core.take_completions().empty());
  w.reply(Get::op.code, 1, failure(Code::timed_out, "timed out after 5 s: 1 of 1 keys missing: k"));
  EXPECT_EQ(w.only_failure().detail, "timed out after 5 s: 1 of 1 keys missing: k");
}

TEST(ClientCore, GivesUpAfterTheGraceAndSaysSinceWhenAndWhyTheDaemonIsAway) {
  World w;
  w.open();
  w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
  w.now += seconds(2);
  w.core.closed("connection lost: connection reset by peer", w.now);
  w.now = *w.core.dial_at();
  w.core.dialling();
  w.core.closed("connect: connection refused", w.now);
  w.now = TimePoint() + seconds(7);
  w.core.tick(w.now);
  const Failure reason = w.only_failure();
  EXPECT_EQ(reason.code, Code::timed_out);
  EXPECT_EQ(reason.detail.find("get timed out after 5 s: the daemon at host:29500 has not been "
                               "reachable for "),
            0u)
      << reason.detail;
  EXPECT_NE(reason.detail.find("connect: connection refused"), std::string::npos) << reason.detail;
}

TEST(ClientCore, AnOverdueWaitIsAskedAgainAsAWaitNotAsALook) {
  World w;
  w.core.call(Get{"k", seconds(1)}, kLimit, w.now);
  w.core.call(Get{"k", Duration(0)}, kLimit, w.now);
  w.now += milliseconds(1500);
  w.open();
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(std::get<Get>(frames[0].request).timeout, Duration(1));
  EXPECT_EQ(std::get<Get>(frames[0].request).waited, seconds(1) - Duration(1));
  EXPECT_EQ(std::get<Get>(frames[1].request).timeout, Duration(0));
  EXPECT_EQ(std::get<Get>(frames[1].request).waited, Duration(0));
}

TEST(ClientCore, EveryPrefixOfAReplyIsAReasonToWait) {
  const Bytes bytes = World::bytes(Get::op.code, 1, ReplyBody(Value{"the value"}));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    World w;
    w.open();
    w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
    w.sent();
    w.core.received(std::string_view(bytes).substr(0, cut), w.now);
    ASSERT_TRUE(w.core.take_completions().empty()) << cut;
    ASSERT_TRUE(w.core.open()) << cut;
    w.core.received(std::string_view(bytes).substr(cut), w.now);
    const std::vector<Completion> done = w.core.take_completions();
    ASSERT_EQ(done.size(), 1u) << cut;
    ASSERT_EQ(std::get<Value>(*done[0].reply).value, "the value") << cut;
  }
}

TEST(ClientCore, RepliesMayComeInOnePieceOrByteByByte) {
  World w;
  w.open();
  Bytes bytes;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    w.core.call(Set{"k", "v"}, kLimit, w.now);
    bytes += World::bytes(Set::op.code, i, ReplyBody(Written{i}));
  }
  w.sent();
  const std::size_t half = bytes.size() / 2 + 3;
  w.core.received(std::string_view(bytes).substr(0, half), w.now);
  for (const char byte : bytes.substr(half)) w.core.received({&byte, 1}, w.now);
  EXPECT_EQ(w.core.take_completions().size(), 20u);
}

TEST(ClientCore, BytesThatAreNoAnswerEndTheConnectionNotTheCalls) {
  const Bytes good = World::bytes(Get::op.code, 1, ReplyBody(Value{"v"}));
  Bytes huge = good;
  huge.replace(0, 4, "\xff\xff\xff\x7f", 4);
  Bytes short_field = good;
  short_field[native::ReplyHeader::kSize] = 99;  // the length of the value
  Bytes unknown = good;
  unknown[4] = static_cast<char>(200);
  Bytes other_op = World::bytes(Add::op.code, 1, ReplyBody(Counter{3}));
  for (const Bytes& bytes : {huge, short_field, unknown, other_op}) {
    World w;
    w.open();
    w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
    w.sent();
    w.core.received(bytes, w.now);
    EXPECT_FALSE(w.core.wants_socket());
    EXPECT_NE(w.core.absence(w.now).find("it sent a malformed reply"), std::string::npos);
    w.open();
    w.sent();
    w.core.received(good, w.now);
    EXPECT_EQ(w.core.take_completions().size(), 1u);
  }
}

TEST(ClientCore, ARequestThatFitsNoFrameIsRefusedHere) {
  World w;
  w.open();
  w.core.call(MultiSet{{"a", "b", "c"},
                       {Bytes(8'000'000, 'x'), Bytes(8'000'000, 'x'), Bytes(8'000'000, 'x')}},
              kLimit, w.now);
  w.core.call(Set{"d", "1"}, kLimit, w.now);
  EXPECT_EQ(w.only_failure().code, Code::too_large);
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.sequence, 2u);
}

TEST(ClientCore, FinishFailsEverythingAndStaysFinished) {
  World w;
  w.open();
  w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
  w.core.finish(failure(Code::closed, "the client was closed"), w.now);
  EXPECT_EQ(w.only_failure().code, Code::closed);
  w.core.connected(w.now);
  w.core.received("garbage", w.now);
  w.core.tick(w.now + seconds(100));
  EXPECT_FALSE(w.core.wants_socket());
  EXPECT_FALSE(w.core.next_deadline().has_value());
}

TEST(ClientCore, DamagedBytesAtWorstEndTheConnection) {
  std::uint64_t random = 1;
  const auto next = [&](std::size_t below) {
    random = random * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::size_t>(random >> 33) % below;
  };
  for (int round = 0; round < 3000; ++round) {
    World w;
    w.open();
    w.core.call(Get{"k", seconds(5)}, kLimit, w.now);
    w.core.call(Add{"n", 1}, kLimit, w.now);
    w.sent();
    Bytes bytes = World::bytes(Get::op.code, 1, ReplyBody(Value{"the value"})) +
                  World::bytes(Add::op.code, 2, failure(Code::wrong_type, "no number")) +
                  World::bytes(Ping::op.code, 0, ReplyBody(Done{}));
    for (std::size_t flips = 1 + next(3); flips > 0; --flips) {
      bytes[next(bytes.size())] = static_cast<char>(next(256));
    }
    w.core.received(bytes, w.now);
    if (w.core.over()) continue;
    if (w.core.open()) w.core.closed("enough", w.now);
    const std::size_t done = w.core.take_completions().size();
    w.open();
    EXPECT_EQ(w.sent().size() + done, 2u) << "each call is answered or sent again";
  }
}

}  // namespace
}  // namespace c10dd::client
