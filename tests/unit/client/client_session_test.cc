// SPDX-License-Identifier: Apache-2.0
// Sessions that the daemon has ended: which calls have an unknown outcome, and which continue. Also
// failures that end a call.
#include <set>

#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Barrier barrier() {
  Barrier request;
  request.name = "g";
  request.world_size = 2;
  request.timeout = seconds(50);
  return request;
}

TEST(ClientSession, ThatExpiredLeavesOnlySentWritesInDoubt) {
  World w;
  w.open();
  const SessionId first = Hello{}.session;
  const std::uint64_t write = w.core.call(Add{"n", 1}, kLimit, w.now);
  w.core.call(Get{"k", seconds(50)}, kLimit, w.now);
  w.core.call(pop(seconds(50)), kLimit, w.now);
  w.core.call(barrier(), kLimit, w.now);
  const std::uint64_t given_up = w.core.call(pop(), kLimit, w.now);
  w.core.call(Set{"before", "1"}, kLimit, w.now);
  ASSERT_EQ(w.sent().size(), 6u);
  w.reply(Set::op.code, 6, ReplyBody(Written{9}), {7, 2, 9});
  w.core.take_completions();
  w.core.closed("lost", w.now);
  w.core.fail_call(given_up, failure(Code::aborted, "not wanted"), w.now);
  w.core.take_completions();
  w.core.call(Set{"unsent", "1"}, kLimit, w.now);

  w.dial();
  ASSERT_EQ(std::get<Hello>(w.only_sent().request).session, first);
  w.reply(Hello::op.code, 0, failure(Code::session_expired, "away for 11 min, limit 10 min"));
  const std::vector<Completion> done = w.core.take_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].call, write);
  EXPECT_EQ(done[0].reply.error().code, Code::outcome_unknown);
  const std::string& text = done[0].reply.error().detail;
  EXPECT_EQ(text.find("add: the session ended before the reply arrived (away for 11 min, limit 10"),
            0u)
      << text;
  EXPECT_NE(text.find("read the state before you repeat it"), std::string::npos) << text;
  EXPECT_EQ(w.core.stats(w.now).sessions_lost, 1u);

  w.dial();
  const Hello again = std::get<Hello>(w.only_sent().request);
  EXPECT_NE(again.session, first);
  EXPECT_EQ(again.seen, (Stamp{7, 2, 9})) << "what was seen of the job was seen";
  w.reply(Hello::op.code, 0, World::welcome());
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 4u) << "no cancel: the old session's items went back";
  EXPECT_EQ(frames[0].header.op, Get::op.code);
  EXPECT_EQ(frames[1].header.op, QueuePop::op.code);
  EXPECT_EQ(frames[2].header.op, Barrier::op.code);
  EXPECT_EQ(frames[3].header.op, Set::op.code);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].header.sequence, 7 + i) << "a number means one request, in any session";
    EXPECT_GE(frames[i].header.acked_below, 7u);
  }
  EXPECT_EQ(w.core.stats(w.now).reissued, 3u);
  EXPECT_EQ(w.core.stats(w.now).connects, 2u);
}

TEST(ClientSession, OpensNoOtherAfterItWasReplaced) {
  World w;
  w.open();
  const std::uint64_t write = w.core.call(Add{"n", 1}, kLimit, w.now);
  const std::uint64_t wait = w.core.call(barrier(), kLimit, w.now);
  ASSERT_EQ(w.sent().size(), 2u);
  w.core.closed("lost", w.now);
  w.dial();
  w.only_sent();
  w.reply(Hello::op.code, 0, failure(Code::session_replaced, "another has its rank"));
  std::map<std::uint64_t, Code> codes;
  for (const Completion& done : w.core.take_completions()) {
    codes[done.call] = done.reply.error().code;
  }
  EXPECT_EQ(codes, (std::map<std::uint64_t, Code>{{write, Code::outcome_unknown},
                                                  {wait, Code::session_replaced}}));
  ASSERT_TRUE(w.core.over());
  EXPECT_EQ(w.core.over()->code, Code::session_replaced);
  EXPECT_EQ(w.core.dial_at(), std::nullopt);
  EXPECT_FALSE(w.core.wants_socket());
  w.core.call(Get{"k", {}}, kLimit, w.now);
  EXPECT_EQ(w.core.take_completions().at(0).reply.error().code, Code::session_replaced);
}

TEST(ClientSession, TellsWhichJobItKnowsAndWhenItWasOpened) {
  World w;
  w.dial();
  Hello hello = std::get<Hello>(w.only_sent().request);
  EXPECT_EQ(hello.number, 0u);
  EXPECT_EQ(hello.opened, 0u);
  Welcome welcome = std::get<Welcome>(*World::welcome());
  welcome.job = 5;
  welcome.opened = 17;
  w.reply(Hello::op.code, 0, ReplyBody(welcome));
  w.core.closed("lost", w.now);
  w.dial();
  hello = std::get<Hello>(w.only_sent().request);
  EXPECT_EQ(hello.number, 5u);
  EXPECT_EQ(hello.opened, 17u);
  w.reply(Hello::op.code, 0, failure(Code::session_expired, "away"));
  w.dial();
  hello = std::get<Hello>(w.only_sent().request);
  EXPECT_EQ(hello.number, 5u) << "another session of the same job";
  EXPECT_EQ(hello.opened, 0u);
}

TEST(ClientSession, MayExpireInTheAnswerToARequest) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.core.call(Get{"k", seconds(50)}, kLimit, w.now);
  w.sent();
  w.reply(Get::op.code, 2, failure(Code::session_expired, "it was ended"));
  EXPECT_EQ(w.only_failure().code, Code::outcome_unknown);
  EXPECT_FALSE(w.core.open());
  w.open();
  EXPECT_EQ(w.only_sent().header.op, Get::op.code);
}

TEST(ClientSession, ThatExpiresAgainAndAgainIsEachTimeAnotherOneAndDoesNotSpin) {
  const auto sessions = [](std::uint64_t seed) {
    World w(seed);
    std::vector<SessionId> seen;
    for (int i = 0; i < 30; ++i) {
      w.dial();
      seen.push_back(std::get<Hello>(w.only_sent().request).session);
      w.reply(Hello::op.code, 0, failure(Code::session_expired, "gone"));
    }
    EXPECT_EQ(w.core.stats(w.now).sessions_lost, 30u);
    EXPECT_GT(w.now - TimePoint(), seconds(5));
    return seen;
  };
  const std::vector<SessionId> one = sessions(1);
  EXPECT_EQ(std::set<SessionId>(one.begin(), one.end()).size(), one.size());
  EXPECT_EQ(one, sessions(1));
  EXPECT_NE(one.back(), sessions(2).back());
}

TEST(ClientSession, AwayForLongerThanItsExpiryTheDaemonIsAskedFirst) {
  Hello hello;
  hello.session = {1, 2};
  hello.expiry = seconds(5);
  World w(CoreOptions{{"host:1"}, hello, 1});
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.core.closed("lost", w.now);
  w.now += seconds(30);
  w.dial();
  const Hello again = std::get<Hello>(w.only_sent().request);
  EXPECT_EQ(again.session, (SessionId{1, 2}));
  EXPECT_EQ(again.expiry, seconds(5));
  EXPECT_TRUE(w.core.take_completions().empty());
  w.reply(Hello::op.code, 0, World::welcome());
  EXPECT_EQ(w.only_sent().header.sequence, 1u);
  EXPECT_EQ(w.core.stats(w.now).sessions_lost, 0u);
}

class DefiniteFailure : public testing::TestWithParam<Code> {};

TEST_P(DefiniteFailure, EndsTheCallAndNothingElse) {
  World w;
  w.open();
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.reply(Set::op.code, 1, failure(GetParam(), "no"));
  EXPECT_EQ(w.only_failure().code, GetParam());
  EXPECT_TRUE(w.core.open());
  EXPECT_TRUE(w.sent().empty());
}

INSTANTIATE_TEST_SUITE_P(Codes, DefiniteFailure,
                         testing::Values(Code::disk_full, Code::quota_exceeded, Code::compacted,
                                         Code::outcome_unknown),
                         [](const auto& code) { return std::string(name_of(code.param)); });

}  // namespace
}  // namespace c10dd::client
