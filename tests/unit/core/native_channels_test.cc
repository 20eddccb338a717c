// SPDX-License-Identifier: Apache-2.0
// Several sessions on one native connection: for which of them a heartbeat counts, and what is left
// of them when the connection has closed.
#include "daemon/core/host/native_channels.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A native connection without a socket. Keeps the newest reply of each channel.
class Link final : public NativeConnection {
 public:
  Link(JobHost& host, std::uint64_t number) : channels(host, number, *this) {}

  void give(std::uint32_t channel, std::uint64_t sequence, const Request& request) {
    Bytes bytes;
    native::encode_request(bytes, {.channel = channel, .sequence = sequence}, request);
    channels.take(**native::cut_request(bytes, limits::kFrameBytes), 0);
  }

  Result<Caller> authenticate(const std::string& credential, const std::string&) override {
    if (refused.contains(credential)) return failure(Code::unauthenticated, "who?");
    if (credential == "stranger") return failure(Code::permission_denied, "not in this job");
    if (credential == "viewer") return Caller{"eve", Access::observe};
    if (credential.starts_with("hour")) return Caller{name, may, std::chrono::hours(1)};
    return Caller{};
  }

  std::set<std::string> refused = {"nobody"};  ///< credentials that are not good
  std::string name = "bob";   ///< of who sends a credential that begins with "hour"
  Access may = Access::join;  ///< with a credential that begins with "hour"

  NativeChannels channels;
  std::map<std::uint32_t, Reply> newest;
  std::map<std::uint32_t, Failure> ends;  ///< of sessions that the daemon has ended

 private:
  void send(const native::ReplyHeader& header, const Reply& reply) override {
    if (header.sequence != 0) newest.insert_or_assign(header.channel, reply);
    if (!reply && header.op == Hello::op.code) ends.insert_or_assign(header.channel, reply.error());
  }
  void refuse_bytes(const native::RequestHeader&, const Failure& reason) override {
    ADD_FAILURE() << reason.detail;
  }
  void taken(const OpInfo&) override {}
  void unknown_op() override { ADD_FAILURE(); }
  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) override {
    channels.deliver(channel, reply, stamp);
  }
  void end_session(std::uint32_t channel, const Failure& reason) override {
    channels.end_session(channel, reason);
  }
  void flush() override {}
};

/// A connection to the first of two loops. Jobs 1, 3, ... live on the first, jobs 2, 4, ... on the
/// second loop.
class NativeChannelsTest : public testing::Test {
 protected:
  static constexpr Duration kBeat = milliseconds(500);

  void SetUp() override { link_ = std::make_shared<Link>(world_.host(), 77); }

  void give(std::uint32_t channel, const Request& request) {
    world_.loops[0]->turn([&] { link_->give(channel, ++sequence_, request); });
    world_.settle();
  }

  /// Opens a session on the channel, which joins a group of one member in the job.
  void join(std::uint32_t channel, const std::string& job) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {7, channel};
    hello.job = job;
    give(channel, hello);
    Join join;
    join.group = "g";
    join.policy.min = join.policy.max = 1;
    join.timeout = seconds(10);
    give(channel, join);
    ASSERT_TRUE(link_->newest.at(channel)) << link_->newest.at(channel).error().detail;
  }

  /// Opens a session on the channel with this credential.
  Welcome open(std::uint32_t channel, const std::string& credential, std::int64_t rank = -1) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {7, channel};
    hello.job = "a";
    hello.credential = credential;
    hello.rank = rank;
    give(channel, hello);
    const Reply& reply = link_->newest.at(channel);
    EXPECT_TRUE(reply);
    return reply ? std::get<Welcome>(*reply) : Welcome();
  }
  void recheck() {
    world_.loops[0]->turn([&] { link_->channels.recheck(); });
    world_.settle();
  }

  /// Returns the status of the group in this channel's job.
  GroupStatus status(std::uint32_t channel) {
    give(channel, WatchGroup{"g", 0, milliseconds(1)});
    const Reply& reply = link_->newest.at(channel);
    return reply ? std::get<GroupStatus>(*reply) : GroupStatus{};
  }

  /// Lets time pass while one channel sends heartbeats.
  void beat(std::uint32_t channel, Duration time) {
    for (Duration passed(0); passed < time; passed += kBeat) {
      world_.loops[0]->turn([&] { link_->give(channel, 0, Ping{}); });
      world_.settle();
      world_.pass(kBeat);
      world_.settle();
    }
  }

  HostWorld world_{2};
  std::shared_ptr<Link> link_;
  std::uint64_t sequence_ = 0;
};

constexpr Duration kLong = 3 * limits::kSessionTtl;

TEST_F(NativeChannelsTest, ASessionEndsWhenItsCredentialIsNoLongerGood) {
  EXPECT_EQ(open(1, "hour").valid_for, std::chrono::hours(1));
  EXPECT_EQ(open(2, "").valid_for, Duration::zero());
  recheck();
  EXPECT_TRUE(link_->ends.empty());
  link_->may = Access::observe;
  recheck();
  ASSERT_EQ(link_->ends.size(), 1U);
  EXPECT_EQ(link_->ends.at(1).code, Code::session_unknown) << "its role has changed";
  open(1, "hour");
  give(1, Set{.key = "a", .value = "1"});
  EXPECT_EQ(link_->newest.at(1).error().code, Code::permission_denied);
  link_->refused.insert("hour");
  recheck();
  ASSERT_EQ(link_->ends.size(), 1U) << "the other one needs no credential";
  EXPECT_EQ(link_->ends.at(1).code, Code::unauthenticated);
  EXPECT_EQ(open(1, "hour 2").valid_for, std::chrono::hours(1)) << "the session can come back";
}

TEST_F(NativeChannelsTest, WhatAnEarlierHelloOpensIsNotUsedWithTheCredentialOfALaterOne) {
  for (const std::uint32_t channel : {1U, 2U}) {  // of jobs on both loops
    Hello first;
    first.version_min = first.version_max = kProtocolVersion;
    first.session = {7, channel};
    first.job = "victim" + std::to_string(channel);
    first.credential = "viewer";
    Hello second = first;
    second.job = "own";
    second.credential = "hour";
    second.seen = {12'345, 99, 1};  // its job refuses it
    world_.loops[0]->turn([&] {
      link_->give(channel, ++sequence_, first);
      link_->give(channel, ++sequence_, second);
      link_->give(channel, ++sequence_, Set{.key = "k", .value = "pwned"});
    });
    world_.settle();
    EXPECT_FALSE(link_->newest.at(channel));
    give(channel, Set{.key = "k", .value = "pwned"});
    ASSERT_FALSE(link_->newest.at(channel)) << "channel " << channel;
    EXPECT_EQ(link_->newest.at(channel).error().code, Code::session_unknown);
  }
}

TEST_F(NativeChannelsTest, AViewerIsNoRankOfTheJob) {
  open(1, "hour");
  open(2, "viewer", 1);
  const auto missing = [&](const std::string& barrier) {
    give(1, Barrier{.name = barrier, .rank = 0, .world_size = 2, .timeout = milliseconds(10)});
    world_.pass(milliseconds(20));
    world_.settle();
    const Reply& reply = link_->newest.at(1);
    EXPECT_EQ(reply.error().missing.size(), 1U);
    return reply.error().missing.at(0).cause;
  };
  EXPECT_EQ(missing("a"), MissingRank::Cause::never_connected);
  open(3, "hour", 1);
  EXPECT_EQ(missing("b"), MissingRank::Cause::not_arrived);
}

TEST_F(NativeChannelsTest, ANewerCredentialTakesThePlaceOfTheOld) {
  open(1, "hour");
  give(1, Authenticate{"nobody"});
  EXPECT_EQ(link_->newest.at(1).error().code, Code::unauthenticated);
  give(1, Authenticate{std::string(limits::kCredentialBytes + 1, 'x')});
  EXPECT_EQ(link_->newest.at(1).error().code, Code::too_large);
  recheck();
  EXPECT_TRUE(link_->ends.empty()) << "the old one is still good";
  give(1, Authenticate{"hour 2"});
  EXPECT_EQ(std::get<Authenticated>(*link_->newest.at(1)).valid_for, std::chrono::hours(1));
  link_->refused.insert("hour");
  recheck();
  EXPECT_TRUE(link_->ends.empty());
  give(1, Set{.key = "a", .value = "1"});
  EXPECT_TRUE(link_->newest.at(1));
}

TEST_F(NativeChannelsTest, ANewerCredentialIsOneOfTheSamePrincipal) {
  open(1, "hour");
  give(1, Authenticate{"viewer"});
  EXPECT_EQ(link_->newest.at(1).error().code, Code::permission_denied);
  EXPECT_EQ(
      link_->newest.at(1).error().detail,
      "authenticate: the session is not one of \"eve\"; open another session with this token");
  EXPECT_TRUE(link_->ends.empty());
  give(1, Set{.key = "a", .value = "1"});
  EXPECT_TRUE(link_->newest.at(1)) << "the session goes on with the older one";
  link_->name = "robert";  // the files have changed: the same certificate is another principal now
  recheck();
  ASSERT_EQ(link_->ends.size(), 1U);
  EXPECT_EQ(link_->ends.at(1).code, Code::unauthenticated);
}

TEST_F(NativeChannelsTest, ANewerCredentialWithAnotherRoleNeedsANewHello) {
  open(1, "");
  open(2, "hour");
  link_->may = Access::observe;
  give(2, Authenticate{"hour 2"});
  ASSERT_EQ(link_->ends.size(), 1U);
  EXPECT_EQ(link_->ends.at(2).code, Code::session_unknown);
  open(2, "hour 2");
  give(2, Set{.key = "a", .value = "1"});
  EXPECT_EQ(link_->newest.at(2).error().code, Code::permission_denied);
  link_->ends.clear();
  link_->may = Access::join;
  give(2, Authenticate{"hour 3"});
  ASSERT_EQ(link_->ends.size(), 1U);
  open(2, "hour 3");
  give(2, Set{.key = "a", .value = "1"});
  EXPECT_TRUE(link_->newest.at(2));
}

TEST_F(NativeChannelsTest, WhoMayDoNothingInAJobMakesNone) {
  Hello hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.session = {7, 1};
  hello.job = "secret";
  for (const auto& [credential, code] :
       {std::pair("nobody", Code::unauthenticated), {"stranger", Code::permission_denied}}) {
    hello.credential = credential;
    give(1, hello);
    ASSERT_FALSE(link_->newest.at(1));
    EXPECT_EQ(link_->newest.at(1).error().code, code);
    EXPECT_TRUE(world_.host().jobs().reports().empty());
    give(1, Set{"k", "v", {}, false});
    EXPECT_EQ(link_->newest.at(1).error().code, Code::session_unknown);
  }
  hello.credential = "trainer";
  give(1, hello);
  EXPECT_TRUE(link_->newest.at(1)) << "the same channel, with another token";
  EXPECT_EQ(world_.host().jobs().reports().size(), 1U);
}

TEST_F(NativeChannelsTest, AViewerReadsAndWritesNothing) {
  Hello hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.session = {7, 1};
  hello.job = "a";
  hello.credential = "viewer";
  give(1, hello);
  EXPECT_EQ(link_->newest.at(1).error().code, Code::not_found) << "a viewer makes no job";
  Hello maker = hello;
  maker.session = {7, 2};
  maker.credential = "trainer";
  give(2, maker);
  give(1, hello);
  ASSERT_TRUE(link_->newest.at(1));
  give(1, Count{});
  EXPECT_TRUE(link_->newest.at(1));
  give(1, Set{"k", "v", {}, false});
  ASSERT_FALSE(link_->newest.at(1));
  EXPECT_EQ(link_->newest.at(1).error().code, Code::permission_denied);
  hello.credential = "trainer";
  give(1, hello);
  give(1, Set{"k", "v", {}, false});
  EXPECT_TRUE(link_->newest.at(1)) << "it has said hello again, with a newer token";
  hello.credential = "nobody";
  give(1, hello);
  EXPECT_EQ(link_->newest.at(1).error().code, Code::unauthenticated);
  give(1, Set{"k", "v", {}, false});
  EXPECT_TRUE(link_->newest.at(1)) << "a hello that fails leaves the session as it is";
}

TEST_F(NativeChannelsTest, AHeartbeatOfOneChannelCountsForAllJobsOfTheConnection) {
  for (const std::uint32_t channel : {1u, 2u, 3u, 4u})
    join(channel, "job" + std::to_string(channel));
  for (const std::uint32_t beating : {1u, 2u, 4u}) {
    beat(beating, kLong);
    for (const std::uint32_t channel : {1u, 2u, 3u, 4u}) {
      EXPECT_EQ(status(channel).phase, GroupPhase::formed)
          << "channel " << beating << " beats, channel " << channel << ": "
          << status(channel).reason;
    }
  }
}

TEST_F(NativeChannelsTest, BytesThatWaitToBeTakenCountForAllJobsOfTheConnection) {
  const auto wait = [&] {
    for (Duration passed(0); passed < kLong; passed += kBeat) {
      world_.loops[0]->turn([&] { link_->channels.heard(); });
      world_.settle();
      world_.pass(kBeat);
      world_.settle();
    }
  };
  for (const std::uint32_t channel : {1u, 2u}) join(channel, "job" + std::to_string(channel));
  wait();
  for (const std::uint32_t channel : {1u, 2u}) EXPECT_EQ(status(channel).phase, GroupPhase::formed);
  join(3, "job3");  // a job more, and one less
  give(1, Goodbye{});
  wait();
  for (const std::uint32_t channel : {2u, 3u}) EXPECT_EQ(status(channel).phase, GroupPhase::formed);
}

TEST_F(NativeChannelsTest, WithoutHeartbeatsTheMembersOfAllChannelsAreLost) {
  for (const std::uint32_t channel : {1u, 2u, 3u}) join(channel, "job" + std::to_string(channel));
  world_.pass(kLong);
  world_.settle();
  for (const std::uint32_t channel : {1u, 2u, 3u}) {
    const GroupStatus now = status(channel);
    EXPECT_EQ(now.phase, GroupPhase::broken);
    EXPECT_NE(now.reason.find("silent for"), std::string::npos) << now.reason;
  }
}

TEST_F(NativeChannelsTest, AChannelThatSaysGoodbyeLeavesTheOthers) {
  join(1, "a");
  join(2, "b");
  give(1, Goodbye{});
  beat(2, kLong);
  EXPECT_EQ(status(2).phase, GroupPhase::formed);
  give(1, Ping{});
  EXPECT_EQ(link_->newest.at(1).error().code, Code::session_unknown);
}

TEST_F(NativeChannelsTest, TwoChannelsOfOneJobAreTwoSessions) {
  join(1, "a");
  Hello second;
  second.version_min = second.version_max = kProtocolVersion;
  second.session = {7, 2};
  second.job = "a";
  give(2, second);
  give(2, Set{"k", "v"});
  give(1, Get{"k"});
  EXPECT_EQ(std::get<Value>(*link_->newest.at(1)).value, "v");
  give(2, Goodbye{});
  beat(1, kLong);
  EXPECT_EQ(status(1).phase, GroupPhase::formed);
  EXPECT_TRUE(link_->ends.empty());
}

TEST_F(NativeChannelsTest, AClosedConnectionLeavesAllItsJobs) {
  for (const std::uint32_t channel : {1u, 2u, 3u}) join(channel, "job" + std::to_string(channel));
  const auto connected = [&] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      for (const JobReport& job : world_.host(i).jobs().reports()) sum += job.stats.sessions;
    }
    return sum;
  };
  EXPECT_EQ(connected(), 3u);
  world_.loops[0]->turn([&] { link_->channels.close_sessions(); });
  world_.settle();
  EXPECT_EQ(connected(), 0u);
}

}  // namespace
}  // namespace c10dd::core
