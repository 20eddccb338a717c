// SPDX-License-Identifier: Apache-2.0
// Native connections that are slow, silent or large, and those that move between loops.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/net/native_session.h"
#include "protocol/limits.h"
#include "tests/unit/daemon/faulty_engine.h"
#include "tests/unit/daemon/native_peer.h"
#include "tests/unit/daemon/samples.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

/// Another connection that holds most of what all connections together may hold.
struct Neighbour final : BudgetSink {
  explicit Neighbour(SmallDaemon& daemon) : loop(daemon.loop), share(daemon.budget) {}
  asio::any_io_executor budget_executor() override { return loop.get_executor(); }
  void read_on() override {}
  void close_for_room(const Failure&) override {}

  Loop& loop;
  BudgetShare share;
};

class NativePressureTest : public testing::Test {
 protected:
  void start() {
    peer_.connect();
    ASSERT_TRUE(peer_.hello(1));
  }
  void stuff(const std::string& key, std::size_t bytes) {
    ASSERT_EQ(peer_.ask(Set{key, Bytes(bytes, 'x')}, 0, ++sequence_).code(), Code::ok);
  }

  SmallDaemon daemon_;
  NativePeer peer_{daemon_};
  std::uint64_t sequence_ = 1;
};

TEST_F(NativePressureTest, LargeFrameComesInPieces) {
  start();
  const Bytes value(3 * kMiB, 'v');
  const Bytes bytes = NativePeer::frame(Set{"k", value}, 0, 2);
  for (std::size_t at = 0; at < bytes.size(); at += 700'000) {
    peer_.wire->say(std::string_view(bytes).substr(at, 700'000));
    daemon_.turn();
    EXPECT_EQ(daemon_.budget.held() > 0, at < bytes.size()) << at;
  }
  EXPECT_EQ(peer_.next().code(), Code::ok);
  EXPECT_EQ(daemon_.budget.held(), 0u) << "given back with the frame";
  EXPECT_EQ(peer_.ask(Get{"k"}, 0, 3).as<Value>().value, value);
}

TEST_F(NativePressureTest, ReaderThatIsSlowGetsAllInOrder) {
  start();
  stuff("k", 2 * kMiB);
  peer_.wire->give_room(0);
  for (std::uint64_t i = 0; i < 3; ++i) peer_.send(Get{"k"}, 0, 100 + i);
  daemon_.turn_a_while();
  EXPECT_EQ(peer_.wire->written().size(), 0u);
  EXPECT_GT(daemon_.budget.held(), 6 * kMiB) << "unread replies are counted";
  for (int i = 0; i < 8; ++i) {
    peer_.wire->give_room(kMiB);
    daemon_.turn_a_while();
  }
  for (std::uint64_t i = 0; i < 3; ++i) {
    const NativeReply reply = peer_.next();
    EXPECT_EQ(reply.header.sequence, 100 + i);
    EXPECT_EQ(reply.as<Value>().value.size(), 2 * kMiB);
  }
  EXPECT_EQ(daemon_.budget.held(), 0u);
}

TEST_F(NativePressureTest, ReadsNoFurtherWhileItsAnswersAreNotRead) {
  start();
  stuff("k", 5 * kMiB);
  ASSERT_GT(10 * kMiB, limits::kOutboxSoftBytes);
  peer_.wire->give_room(0);
  peer_.wire->say(NativePeer::frame(Get{"k"}, 0, 100) + NativePeer::frame(Get{"k"}, 0, 101));
  daemon_.turn_a_while();
  peer_.send(Ping{}, 0, 102);  // is read, because that read was under way
  daemon_.turn_a_while();
  peer_.send(Ping{}, 0, 103);
  daemon_.turn_a_while();
  EXPECT_TRUE(peer_.wire->unread());
  peer_.wire->give_room(20 * kMiB);
  for (std::uint64_t i = 100; i <= 103; ++i) EXPECT_EQ(peer_.next().header.sequence, i);
  EXPECT_FALSE(peer_.wire->unread());
}

TEST_F(NativePressureTest, FrameWithoutRoomWaitsUntilThereIsSome) {
  start();
  Neighbour neighbour(daemon_);
  neighbour.share.set_replies(64 * kMiB);
  const Bytes bytes = NativePeer::frame(Set{"k", Bytes(kMiB, 'v')}, 0, 2);
  peer_.wire->say(std::string_view(bytes).substr(0, 100'000));
  daemon_.turn_a_while();
  EXPECT_TRUE(daemon_.budget.scarce());
  peer_.wire->say(std::string_view(bytes).substr(100'000));
  daemon_.turn_a_while();
  EXPECT_TRUE(peer_.wire->unread());
  EXPECT_FALSE(peer_.has_reply());
  neighbour.share.set_replies(0);
  EXPECT_EQ(peer_.next().code(), Code::ok);
  EXPECT_FALSE(daemon_.budget.scarce());
}

TEST_F(NativePressureTest, OneThatHoldsTooMuchForTooLongIsToldAndClosed) {
  start();
  const Bytes bytes = NativePeer::frame(Set{"k", Bytes(15 * kMiB, 'v')}, 0, 2);
  peer_.wire->say(std::string_view(bytes).substr(0, 100'000));
  ASSERT_TRUE(daemon_.turn_until([&] { return daemon_.budget.held() > 0; }));
  Neighbour first(daemon_);
  Neighbour second(daemon_);
  first.share.set_replies(14 * kMiB);
  second.share.set_replies(14 * kMiB);
  std::vector<std::unique_ptr<Neighbour>> more;
  for (int i = 0; i < 8; ++i) {
    more.push_back(std::make_unique<Neighbour>(daemon_));
    more.back()->share.set_replies(12 * kMiB);
  }
  const NativeReply reply = peer_.next();
  EXPECT_EQ(reply.code(), Code::quota_exceeded);
  EXPECT_EQ(reply.header.op, Hello::op.code);
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->session_ended(); }));
  EXPECT_EQ(daemon_.closed("native", "quota_exceeded"), 1);
}

TEST_F(NativePressureTest, ReaderThatIsFarBehindIsClosed) {
  start();
  Bytes gets;
  for (std::uint64_t i = 0; i < 17; ++i) {
    gets += NativePeer::frame(Get{"k", std::chrono::seconds(60)}, 0, 100 + i);
  }
  peer_.wire->give_room(0);
  peer_.wire->say(gets);
  daemon_.turn_a_while();
  NativePeer other(daemon_);
  other.connect();
  ASSERT_TRUE(other.hello(2));
  EXPECT_EQ(other.ask(Set{"k", Bytes(8 * kMiB, 'x')}, 0, 2).code(), Code::ok);
  EXPECT_TRUE(daemon_.turn_until([&] { return peer_.wire->session_ended(); }));
  EXPECT_EQ(daemon_.closed("native", "quota_exceeded"), 1);
  EXPECT_FALSE(peer_.has_reply()) << "half a frame may have left";
  EXPECT_EQ(daemon_.budget.held(), 0u);
}

// ---- silence -----------------------------------------------------------------------------------

TEST(NativeSilence, ConnectionWithoutAHelloEndsAtTheDeadline) {
  SmallDaemon daemon;
  daemon.context.hello_deadline = milliseconds(1);
  NativePeer peer(daemon);
  peer.connect();
  EXPECT_TRUE(peer.ends());
  EXPECT_EQ(daemon.closed("native", "hello_deadline"), 1);
}

TEST(NativeSilence, AHelloWhoseJobIsLoadedForLongMeetsNoDeadline) {
  const auto faults = std::make_shared<EngineFaults>();
  std::promise<void> read;
  SmallDaemon daemon(1, {}, std::make_unique<FaultyEngine>(faults));
  faults->before_read = [may_read = read.get_future().share()] { may_read.wait(); };
  daemon.context.hello_deadline = milliseconds(1);
  NativePeer peer(daemon);
  peer.connect(NativePeer::frame(NativePeer::hello_of(1)));
  for (int i = 0; i < 2; ++i) {
    const NativeReply told = peer.next();
    EXPECT_EQ(told.code(), Code::unavailable);
    EXPECT_TRUE(told.reply.error().loading) << told.detail();
    EXPECT_NE(told.detail().find("is being loaded: "), std::string::npos) << told.detail();
    peer.send(NativePeer::hello_of(1));
  }
  read.set_value();
  EXPECT_EQ(peer.next().code(), Code::ok) << "on the same connection";
  EXPECT_EQ(daemon.closed("native", "hello_deadline"), 0);
}

// A group with one member whose connection has many requests of another session before it.
TEST(NativeSilence, AMemberWhoseHeartbeatsWaitBehindRequestsIsNotLost) {
  SmallDaemon daemon;
  NativePeer peer(daemon);
  peer.connect();
  ASSERT_TRUE(peer.hello(1, 0));
  ASSERT_TRUE(peer.hello(2, 1));
  Join join;
  join.group = "g";
  join.policy.min = join.policy.max = 1;
  join.policy.ttl = limits::kMemberTtlMin;
  join.timeout = std::chrono::seconds(60);
  ASSERT_EQ(peer.ask(join, 1, 1).code(), Code::ok);
  constexpr std::size_t kSets = 40;
  Bytes behind;
  for (std::size_t i = 0; i < kSets; ++i) {
    behind += NativePeer::frame(Set{"k", Bytes(128 * 1024, 'v')}, 0, 1 + i);
  }
  peer.wire->say(behind + NativePeer::frame(Ping{}, 1, 0));
  for (int turn = 0; turn < 10; ++turn) {  // a connection reads 256 KiB in each
    const auto end = std::chrono::steady_clock::now() + limits::kMemberTtlMin / 6;
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    daemon.turn();
  }
  EXPECT_TRUE(peer.wire->unread()) << "it would have been read within the ttl";
  for (std::size_t i = 0; i <= kSets; ++i) EXPECT_EQ(peer.next().code(), Code::ok);
  const auto status = peer.ask(WatchGroup{"g", 0, std::chrono::seconds(1)}, 1, 2).as<GroupStatus>();
  EXPECT_EQ(status.phase, GroupPhase::formed) << status.reason;
}

TEST(NativeSilence, ConnectionThatSaysNothingMoreIsClosed) {
  Options options;
  options.idle_timeout = milliseconds(8);
  SmallDaemon daemon(1, options);
  NativePeer opener(daemon);  // the job is loaded before the deadline begins
  opener.connect();
  ASSERT_TRUE(opener.hello(9));
  daemon.context.hello_deadline = milliseconds(1);
  NativePeer peer(daemon);
  peer.connect(NativePeer::frame(NativePeer::hello_of(1)));
  EXPECT_EQ(peer.next().code(), Code::ok);
  EXPECT_TRUE(peer.ends());
  EXPECT_EQ(daemon.closed("native", "idle"), 1);
}

TEST(NativeSilence, HeartbeatsKeepAConnection) {
  Options options;
  options.idle_timeout = milliseconds(100);
  SmallDaemon daemon(1, options);
  NativePeer opener(daemon);  // the job is loaded before the deadline begins
  opener.connect();
  ASSERT_TRUE(opener.hello(9));
  daemon.context.hello_deadline = milliseconds(1);
  NativePeer peer(daemon);
  peer.connect(NativePeer::frame(NativePeer::hello_of(1)));
  EXPECT_EQ(peer.next().code(), Code::ok);
  const auto end = std::chrono::steady_clock::now() + 2 * options.idle_timeout;
  while (std::chrono::steady_clock::now() < end) {
    const NativeReply beat = peer.ask(Ping{}, 0, 2);
    ASSERT_EQ(beat.code(), Code::ok) << beat.detail();
  }
  EXPECT_FALSE(peer.wire->session_ended());
}

// ---- several loops -----------------------------------------------------------------------------

/// Returns a job that is served on this loop, counted from 0, of a daemon with two.
std::string job_on(SmallDaemon& daemon, std::size_t loop) {
  for (int i = 0;; ++i) {
    const std::string job = "job" + std::to_string(i);
    Shard* const at = daemon.host.shard_of(job, "", {}).value();
    if ((at == &daemon.shard()) == (loop == 0)) return job;
  }
}

TEST(NativeMove, ConnectionGoesToTheLoopOfItsJob) {
  SmallDaemon daemon(2);
  for (std::size_t loop = 0; loop < 2; ++loop) {
    NativePeer peer(daemon);
    peer.connect(NativePeer::frame(NativePeer::hello_of(loop + 1, job_on(daemon, loop))));
    EXPECT_EQ(peer.next().code(), Code::ok);
    EXPECT_EQ(peer.wire->moves(), loop);
    EXPECT_EQ(peer.ask(Set{"k", "v"}, 0, 2).code(), Code::ok);
    peer.wire->hang_up();
    EXPECT_TRUE(daemon.turn_until([&] { return peer.wire->closed(); }));
  }
  EXPECT_EQ(daemon.closed("native", "peer"), 2);
}

TEST(NativeMove, ChannelsOfOneConnectionMayBeForJobsOfBothLoops) {
  SmallDaemon daemon(2);
  NativePeer peer(daemon);
  peer.connect(NativePeer::frame(NativePeer::hello_of(1, job_on(daemon, 1))));
  EXPECT_EQ(peer.next().code(), Code::ok);
  ASSERT_TRUE(peer.hello(2, 1, job_on(daemon, 0)));
  EXPECT_EQ(peer.ask(Set{"k", "here"}, 0, 2).code(), Code::ok);
  EXPECT_EQ(peer.ask(Set{"k", "there"}, 1, 2).code(), Code::ok);
  EXPECT_EQ(peer.ask(Get{"k"}, 0, 3).as<Value>().value, "here");
  EXPECT_EQ(peer.ask(Get{"k"}, 1, 3).as<Value>().value, "there");
  EXPECT_EQ(peer.ask(Ping{}, 0, 4).code(), Code::ok);
  peer.wire->hang_up();
  EXPECT_TRUE(daemon.turn_until([&] { return peer.wire->closed(); }));
}

TEST(NativeMove, WhatNamesNoJobIsServedWhereItCame) {
  SmallDaemon daemon(2);
  Hello bad = NativePeer::hello_of(1);
  bad.version_min = 200;
  Bytes no_hello = NativePeer::frame(NativePeer::hello_of(1));
  no_hello[native::RequestHeader::kSize + 29] = '\xFF';  // a byte of the length of the job's name
  for (const Bytes& first : {NativePeer::frame(Ping{}), NativePeer::frame(bad), no_hello,
                             Bytes(native::RequestHeader::kSize, '\xFF')}) {
    NativePeer peer(daemon);
    peer.connect(first);
    EXPECT_NE(peer.next().code(), Code::ok);
    EXPECT_EQ(peer.wire->moves(), 0u);
  }
}

}  // namespace
}  // namespace c10dd::daemon
