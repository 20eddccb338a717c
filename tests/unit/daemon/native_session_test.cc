// SPDX-License-Identifier: Apache-2.0
// The native protocol on one connection, frame by frame: hellos, requests, incomplete and malformed
// frames, channels, and how a connection ends.
#include "daemon/net/native_session.h"
#include "daemon/core/host/native_channels.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "protocol/limits.h"
#include "tests/unit/daemon/native_peer.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

class NativeSessionTest : public testing::Test {
 protected:
  void start() {
    peer_.connect();
    ASSERT_TRUE(peer_.hello(1));
  }

  std::size_t sessions() {
    std::size_t all = 0;
    for (const core::JobReport& job : daemon_.shard().reports()) all += job.stats.sessions;
    return all;
  }

  double refused(const std::string& code) const {
    return daemon_.count(metric::kProtocolErrors, "code=\"" + code + "\",protocol=\"native\"");
  }

  SmallDaemon daemon_;
  NativePeer peer_{daemon_};
};

TEST_F(NativeSessionTest, HelloIsWelcomed) {
  peer_.connect();
  peer_.send(NativePeer::hello_of(7), 5, 11);
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.header.op, Hello::op.code);
  EXPECT_EQ(reply.header.channel, 5u);
  EXPECT_EQ(reply.header.sequence, 11u);
  EXPECT_NE(reply.header.stamp.incarnation, 0u);
  EXPECT_EQ(reply.as<Welcome>().version, kProtocolVersion);
  EXPECT_EQ(daemon_.open("native"), 1);
  EXPECT_EQ(sessions(), 1u);
}

TEST_F(NativeSessionTest, WhoMayNotIsRefusedBeforeItsJobIsLookedUp) {
  int looked_up = 0;
  daemon_.context.shard_of = [&](const std::string&, const std::string&,
                                 const core::JobAsker&) -> Result<Shard*> {
    ++looked_up;
    return &daemon_.shard();
  };
  daemon_.context.count_caller = [](const Result<core::Caller>&, const Stream&) {};
  daemon_.context.caller_of = [](const std::string& credential, const std::string&,
                                 const Stream&) -> Result<core::Caller> {
    if (credential == "good") return core::Caller{"alice", Access::join};
    return failure(Code::unauthenticated, "who are you?");
  };
  peer_.connect(NativePeer::frame(NativePeer::hello_of(7), 0, 1));
  EXPECT_EQ(peer_.next().code(), Code::unauthenticated);
  EXPECT_EQ(looked_up, 0);
  EXPECT_EQ(sessions(), 0U);
  Hello hello = NativePeer::hello_of(7);
  hello.credential = "good";
  peer_.send(hello, 0, 2);
  EXPECT_EQ(peer_.next().as<Welcome>().version, kProtocolVersion) << "on the same connection";
  EXPECT_EQ(sessions(), 1U);
  NativePeer other(daemon_);
  other.connect(NativePeer::frame(hello, 0, 1));
  EXPECT_EQ(other.next().as<Welcome>().version, kProtocolVersion);
  EXPECT_EQ(looked_up, 1);
}

TEST_F(NativeSessionTest, RequestsAreAnswered) {
  start();
  EXPECT_GT(peer_.ask(Set{"k", "v"}, 0, 2).as<Written>().revision, 0u);
  EXPECT_EQ(peer_.ask(Get{"k"}, 0, 3).as<Value>().value, "v");
  EXPECT_EQ(peer_.ask(Get{"absent"}, 0, 4).code(), Code::not_found);
  const NativeReply ping = peer_.ask(Ping{}, 0, 5);
  EXPECT_EQ(ping.header.op, Ping::op.code);
  EXPECT_EQ(ping.header.sequence, 5u);
  daemon_.shard().reports();  // adds the counts to the metrics
  EXPECT_EQ(daemon_.count(metric::kRequests, "op=\"set\",protocol=\"native\""), 1);
  EXPECT_EQ(daemon_.count(metric::kRequests, "op=\"get\",protocol=\"native\""), 2);
}

TEST_F(NativeSessionTest, FramesMayComeByteByByteOrAllAtOnce) {
  start();
  const Bytes value(1000, 'v');
  const Bytes all = NativePeer::frame(Set{"k", value}, 0, 2) + NativePeer::frame(Get{"k"}, 0, 3);
  const auto answered = [&] {
    EXPECT_EQ(peer_.next().header.op, Set::op.code);
    EXPECT_EQ(peer_.next().as<Value>().value, value);
    EXPECT_FALSE(peer_.has_reply());
  };
  for (const char c : all) {
    peer_.wire->say(std::string_view(&c, 1));
    daemon_.turn();
  }
  answered();
  for (std::size_t split = 0; split < all.size(); split += 100) {
    peer_.wire->say(all.substr(0, split));
    daemon_.turn();
    peer_.wire->say(all.substr(split));
    answered();
  }
}

TEST_F(NativeSessionTest, BytesThatCameWithTheMagicCount) {
  peer_.connect(NativePeer::frame(NativePeer::hello_of(1)));
  EXPECT_EQ(peer_.next().code(), Code::ok);
}

TEST_F(NativeSessionTest, PipelinedRequestsAreAnsweredInOneWrite) {
  start();
  Bytes all;
  for (std::uint64_t i = 2; i < 102; ++i) all += NativePeer::frame(Add{"n", 1}, 0, i);
  peer_.wire->say(all);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(peer_.next().as<Counter>().value, i);
}

TEST_F(NativeSessionTest, MoreThanATurnsShareOfRequestsIsTakenOverTurns) {
  start();
  Bytes all;
  const std::uint64_t count = 3 * core::TurnUse::kRequests;
  for (std::uint64_t i = 0; i < count; ++i) all += NativePeer::frame(Check{{"n"}}, 0, i + 2);
  peer_.wire->say(all);
  const std::uint64_t before = daemon_.shard().turn();
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(peer_.next().header.sequence, i + 2);
  }
  EXPECT_GE(daemon_.shard().turn() - before, 3u);
}

TEST_F(NativeSessionTest, WaitIsAnsweredWhenItsKeyComes) {
  start();
  NativePeer other(daemon_);
  other.connect();
  ASSERT_TRUE(other.hello(2));
  peer_.send(Wait{{"k"}, std::chrono::seconds(60)}, 0, 2);
  daemon_.turn_a_while();
  EXPECT_FALSE(peer_.has_reply());
  other.ask(Set{"k", "v"}, 0, 2);
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.header.op, Wait::op.code);
  EXPECT_EQ(reply.code(), Code::ok);
}

TEST_F(NativeSessionTest, ChannelsHaveSessionsOfTheirOwn) {
  start();
  ASSERT_TRUE(peer_.hello(2, 9, "other"));
  peer_.ask(Set{"k", "one"}, 0, 2);
  EXPECT_EQ(peer_.ask(Get{"k"}, 9, 2).code(), Code::not_found) << "it is another job";
  const NativeReply reply = peer_.ask(Set{"k", "two"}, 9, 3);
  EXPECT_EQ(reply.header.channel, 9u);
  EXPECT_EQ(peer_.ask(Get{"k"}, 0, 4).as<Value>().value, "one");
  EXPECT_EQ(peer_.ask(Ping{}, 0, 5).code(), Code::ok) << "a sign of life in both jobs";
  EXPECT_EQ(peer_.ask(Goodbye{}, 9, 4).code(), Code::ok);
  EXPECT_EQ(peer_.ask(Get{"k"}, 9, 5).code(), Code::session_unknown);
  EXPECT_EQ(peer_.ask(Get{"k"}, 0, 6).as<Value>().value, "one");
}

TEST_F(NativeSessionTest, ChannelWithoutAHelloIsTold) {
  peer_.connect();
  const NativeReply reply = peer_.ask(Get{"k"}, 3, 2);
  EXPECT_EQ(reply.code(), Code::session_unknown);
  EXPECT_EQ(reply.detail(), "channel 3 has no session: send hello first");
}

TEST_F(NativeSessionTest, AnotherHelloOnAChannelLeavesTheSessionBefore) {
  start();
  ASSERT_TRUE(peer_.hello(2));
  EXPECT_EQ(peer_.ask(Set{"k", "v"}, 0, 2).code(), Code::ok);
  EXPECT_EQ(sessions(), 1u);
}

TEST_F(NativeSessionTest, AHelloOfTheSameSessionForAnotherJobLeavesTheFirstJob) {
  start();
  ASSERT_TRUE(peer_.hello(1, 0, "letters"));
  EXPECT_EQ(sessions(), 1u);
  peer_.wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->closed(); }));
  EXPECT_EQ(sessions(), 0u);
}

TEST_F(NativeSessionTest, HellosForTwoJobsThatComeTogetherLeaveOneSession) {
  peer_.connect();
  peer_.send(NativePeer::hello_of(1, "digits"));
  peer_.send(NativePeer::hello_of(1, "letters"));
  // The first hello loses its channel, unless its job was loaded before the second was read.
  const auto first = peer_.next().as<Welcome>().job;
  if (first != 2u) {
    EXPECT_EQ(peer_.next().as<Welcome>().job, 2u);
  }
  daemon_.turn_a_while();
  EXPECT_EQ(sessions(), 1u);
  peer_.wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->closed(); }));
  daemon_.turn_a_while();
  EXPECT_EQ(sessions(), 0u);
}

TEST_F(NativeSessionTest, SecondConnectionTakesTheSessionOver) {
  start();
  peer_.send(Wait{{"k"}, std::chrono::seconds(60)}, 0, 2);
  daemon_.turn_a_while();
  NativePeer second(daemon_);
  second.connect();
  ASSERT_TRUE(second.hello(1));
  const NativeReply told = peer_.next();
  EXPECT_EQ(told.header.op, Hello::op.code);
  EXPECT_EQ(told.code(), Code::session_superseded);
  EXPECT_EQ(told.detail(), "the session was reopened on another connection");
  EXPECT_EQ(second.ask(Set{"k", "v"}, 0, 3).code(), Code::ok);
  daemon_.turn_a_while();
  EXPECT_FALSE(peer_.has_reply()) << "the wait went with the session";
  EXPECT_EQ(peer_.ask(Get{"k"}, 0, 4).code(), Code::session_unknown);
  EXPECT_FALSE(peer_.wire->closed());
}

TEST_F(NativeSessionTest, ConnectionThatEndsLeavesItsSessions) {
  start();
  ASSERT_TRUE(peer_.hello(2, 1));
  EXPECT_EQ(sessions(), 2u);
  peer_.wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->closed(); }));
  EXPECT_EQ(sessions(), 0u);
  EXPECT_EQ(daemon_.closed("native", "peer"), 1);
  EXPECT_EQ(daemon_.open("native"), 0);
}

TEST_F(NativeSessionTest, HelloOfAConnectionThatIsGoneOpensNothing) {
  peer_.connect();
  peer_.send(NativePeer::hello_of(1));
  peer_.wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->closed(); }));
  daemon_.turn_a_while();
  EXPECT_EQ(sessions(), 0u);
}

// ---- refusals ----------------------------------------------------------------------------------

TEST_F(NativeSessionTest, UnknownOperationIsAnsweredAndForgiven) {
  start();
  Bytes bytes = NativePeer::frame(Ping{}, 0, 2);
  bytes[4] = '\xFE';
  peer_.wire->say(bytes);
  EXPECT_EQ(peer_.next().code(), Code::unknown_op);
  EXPECT_EQ(refused("unknown_op"), 1);
  EXPECT_EQ(peer_.ask(Ping{}, 0, 3).code(), Code::ok);
}

TEST_F(NativeSessionTest, BodyThatIsNoneEndsTheConnection) {
  start();
  Bytes bytes = NativePeer::frame(Set{"key", "v"}, 0, 2);
  bytes[native::RequestHeader::kSize] = '\x7F';  // the length of the key
  peer_.wire->say(bytes + NativePeer::frame(Ping{}, 0, 3));
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.code(), Code::malformed);
  EXPECT_EQ(reply.header.sequence, 2u);
  EXPECT_TRUE(peer_.ends());
  EXPECT_FALSE(peer_.has_reply()) << "nothing behind it is taken";
  EXPECT_EQ(refused("malformed"), 1);
  EXPECT_EQ(daemon_.closed("native", "refused"), 1);
}

TEST_F(NativeSessionTest, FrameThatIsTooLargeIsRefusedByItsHeader) {
  start();
  const Bytes head = NativePeer::frame(Set{"k", "v"}, 0, 2).substr(4, 24);
  const std::uint32_t length = limits::kFrameBytes + 1;
  peer_.wire->say(Bytes(reinterpret_cast<const char*>(&length), 4) + head);
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.code(), Code::too_large);
  EXPECT_EQ(reply.detail(), "the body of the frame has " + std::to_string(length) +
                                " bytes, limit " + std::to_string(limits::kFrameBytes));
  EXPECT_TRUE(peer_.ends());
  EXPECT_EQ(refused("too_large"), 1);
}

TEST_F(NativeSessionTest, LengthAloneTakesNoMemory) {
  start();
  const std::uint32_t length = ~std::uint32_t{0};
  peer_.wire->say(std::string_view(reinterpret_cast<const char*>(&length), sizeof length));
  daemon_.turn_a_while();
  EXPECT_FALSE(peer_.wire->closed());
  peer_.wire->say(NativePeer::frame(Set{"k", "v"}, 0, 2).substr(4, 24));
  EXPECT_EQ(peer_.next().code(), Code::too_large);
  EXPECT_TRUE(peer_.ends());
}

TEST_F(NativeSessionTest, FramesBeforeTheHelloAreSmall) {
  peer_.connect();
  peer_.send(Set{"k", std::string(limits::kHelloFrameBytes, 'v')});
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.code(), Code::too_large);
  EXPECT_NE(reply.detail().find("limit 16384"), std::string::npos) << reply.detail();
  EXPECT_TRUE(peer_.ends());
}

TEST_F(NativeSessionTest, HelloOfAnotherVersionEndsTheConnection) {
  peer_.connect();
  Hello hello = NativePeer::hello_of(1);
  hello.version_min = kProtocolVersion + 1;
  hello.version_max = kProtocolVersion + 2;
  const NativeReply reply = peer_.ask(hello);
  EXPECT_EQ(reply.code(), Code::version_unsupported);
  EXPECT_EQ(reply.detail(),
            "the client requests protocol versions " + std::to_string(kProtocolVersion + 1) +
                " to " + std::to_string(kProtocolVersion + 2) + ", but this daemon supports 1 to " +
                std::to_string(kProtocolVersion));
  EXPECT_TRUE(peer_.ends());
}

TEST_F(NativeSessionTest, CredentialHasABound) {
  Hello hello = NativePeer::hello_of(1);
  hello.credential = Bytes(limits::kCredentialBytes, 'x');
  EXPECT_TRUE(core::check_hello(hello));
  hello.credential += 'x';
  EXPECT_EQ(core::check_hello(hello).error().code, Code::too_large);
}

TEST_F(NativeSessionTest, ChannelsAreBounded) {
  start();
  const auto last = static_cast<std::uint32_t>(limits::kChannelsPerConnection) - 1;
  for (std::uint32_t channel = 1; channel <= last;) {
    Bytes some;
    for (int i = 0; i < 2000 && channel <= last; ++i, ++channel) {
      some += NativePeer::frame(NativePeer::hello_of(1 + channel), channel);
    }
    peer_.wire->say(some);
    ASSERT_TRUE(daemon_.turn_until([&] { return !peer_.wire->unread(); }));
    daemon_.turn();
    peer_.wire->take();
  }
  EXPECT_EQ(peer_.ask(Ping{}, last).code(), Code::ok);
  const NativeReply reply = peer_.ask(NativePeer::hello_of(1), last + 1);
  EXPECT_EQ(reply.code(), Code::quota_exceeded);
  EXPECT_EQ(reply.detail(),
            "too many channels on the connection: 65537 with this one, limit 65536");
  EXPECT_EQ(peer_.ask(Ping{}, last).code(), Code::ok) << "the connection goes on";
}

// ---- drain -------------------------------------------------------------------------------------

TEST_F(NativeSessionTest, DrainRefusesHellosAndTakesNothingButHeartbeats) {
  start();
  peer_.send(Wait{{"k"}, std::chrono::seconds(60)}, 0, 2);
  daemon_.turn_a_while();
  daemon_.draining = true;
  daemon_.shard().drain();
  peer_.send(Set{"k", "v"}, 0, 3);
  EXPECT_EQ(peer_.ask(Ping{}, 0, 4).header.sequence, 4u) << "the set is for the next daemon";
  NativePeer late(daemon_);
  late.connect();
  const NativeReply reply = late.ask(NativePeer::hello_of(2));
  EXPECT_EQ(reply.code(), Code::unavailable);
  EXPECT_EQ(reply.detail(), "the daemon is shutting down");
  EXPECT_EQ(reply.reply.error().retry_after, milliseconds(200));
  daemon_.turn_a_while();
  EXPECT_FALSE(late.wire->closed()) << "it may ask again here";
  EXPECT_FALSE(peer_.has_reply());
}

}  // namespace
}  // namespace c10dd::daemon
