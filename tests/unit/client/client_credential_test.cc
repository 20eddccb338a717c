// SPDX-License-Identifier: Apache-2.0
// The credential of a session: when a newer one is shown, and what a refused one ends.
#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Reply welcome_for(Duration time) {
  Reply reply = World::welcome();
  std::get<Welcome>(*reply).valid_for = time;
  return reply;
}

void open_for(World& w, Duration time) {
  w.core.show("first", w.now);
  w.dial();
  EXPECT_EQ(std::get<Hello>(w.only_sent().request).credential, "first");
  w.reply(Hello::op.code, 0, welcome_for(time));
  ASSERT_TRUE(w.core.open());
}

/// Lets time pass until the core wants a credential. Returns how long that took.
Duration until_wanted(World& w) {
  const TimePoint begin = w.now;
  while (!w.core.wants_credential(w.now) && w.now - begin < std::chrono::hours(100)) {
    w.now = std::max(w.now + milliseconds(1), *w.core.next_deadline());
    w.core.tick(w.now);
    w.sent();
    w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  }
  return w.now - begin;
}

TEST(ClientCredential, IsRenewedInTheLastTenthOfItsTimeAtARandomMoment) {
  std::set<Duration> moments;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World w(seed);
    open_for(w, minutes(100));
    const Duration waited = until_wanted(w);
    EXPECT_GE(waited, minutes(90));
    EXPECT_LE(waited, minutes(100));
    moments.insert(waited / milliseconds(1) * milliseconds(1));
  }
  EXPECT_GT(moments.size(), 15U) << "all ranks may share a token";
}

TEST(ClientCredential, ANewOneIsShownWithoutANewConnectionAndTheOldOneIsNotShownAgain) {
  World w;
  open_for(w, seconds(10));
  until_wanted(w);
  w.core.show("first", w.now);
  EXPECT_TRUE(w.sent().empty()) << "the file has not changed";
  EXPECT_FALSE(w.core.wants_credential(w.now)) << "looks at the file again after a while";
  EXPECT_LE(until_wanted(w), seconds(1));
  w.core.show("second", w.now);
  const Sent shown = w.only_sent();
  EXPECT_EQ(std::get<Authenticate>(shown.request).credential, "second");
  EXPECT_EQ(shown.header.sequence, 0U);
  w.reply(Authenticate::op.code, 0, ReplyBody(Authenticated{seconds(10)}));
  EXPECT_GE(until_wanted(w), seconds(9)) << "counts from the new one";
  EXPECT_TRUE(w.core.open());
  w.core.closed("gone", w.now);
  w.dial();
  EXPECT_EQ(std::get<Hello>(w.only_sent().request).credential, "second");
}

TEST(ClientCredential, OneThatNeverExpiresIsNotAskedFor) {
  World w;
  open_for(w, Duration::zero());
  EXPECT_GE(until_wanted(w), std::chrono::hours(99));
}

TEST(ClientCredential, ARefusedNewerOneIsTriedAgainAndTheSessionGoesOn) {
  World w;
  open_for(w, seconds(10));
  until_wanted(w);
  w.core.show("second", w.now);
  w.sent();
  w.reply(Authenticate::op.code, 0, failure(Code::unauthenticated, "the token has expired"));
  EXPECT_TRUE(w.core.open());
  EXPECT_LE(until_wanted(w), seconds(1));
}

TEST(ClientCredential, ARefusalEndsAFirstConnectAndLaterTheClientTriesOn) {
  for (const Code code : {Code::unauthenticated, Code::permission_denied}) {
    World first;
    first.dial();
    first.sent();
    first.reply(Hello::op.code, 0, failure(code, "who are you?"));
    ASSERT_TRUE(first.core.over());
    EXPECT_EQ(first.core.over()->detail, "who are you?");
    World later;
    later.open();
    later.core.call(Set{"a", "1"}, kLimit, later.now);
    later.sent();
    later.reply(Hello::op.code, 0, failure(code, "the token has expired"));
    later.dial();
    later.sent();
    later.reply(Hello::op.code, 0, failure(code, "the token has expired"));
    EXPECT_FALSE(later.core.over());
    EXPECT_NE(later.core.absence(later.now).find("has refused this client for"), std::string::npos)
        << later.core.absence(later.now);
    later.dial();
    later.core.closed("gone", later.now);
    EXPECT_NE(later.core.absence(later.now).find("has not been reachable for"), std::string::npos)
        << "a lost connection says nothing about the credential";
    later.open();
    EXPECT_EQ(std::get<Set>(later.only_sent().request).key, "a");
  }
}

TEST(ClientCredential, AViewerTriesUntilATrainerHasMadeTheJob) {
  World w;
  for (int attempt = 0; attempt < 3; ++attempt) {
    w.dial();
    w.sent();
    w.reply(Hello::op.code, 0, failure(Code::not_found, "job \"a\" does not exist"));
    ASSERT_FALSE(w.core.over());
  }
  EXPECT_NE(w.core.absence(w.now).find("has refused this client for"), std::string::npos)
      << w.core.absence(w.now);
  w.open();
  EXPECT_TRUE(w.core.open());
}

TEST(ClientCredential, ATimedOutCallOfADeniedClientSaysWhyAndSendsNobodyToTheNetwork) {
  World w;
  w.open();
  w.core.call(Get{"a", {}}, seconds(3), w.now);
  w.sent();
  w.reply(Hello::op.code, 0,
          failure(Code::unauthenticated, "the token is revoked; ask for another"));
  w.now += seconds(4);
  w.core.tick(w.now);
  const Failure why = w.only_failure();
  EXPECT_EQ(why.code, Code::timed_out);
  EXPECT_NE(why.detail.find("has refused this client"), std::string::npos) << why.detail;
  EXPECT_TRUE(why.detail.ends_with("the token is revoked; ask for another)")) << why.detail;
}

TEST(ClientCredential, ADaemonThatMayComeEndsNoFirstConnect) {
  for (const Code code : {Code::not_found, Code::unavailable}) {
    World first;
    first.core.dialling();
    first.core.dial_failed(failure(code, "no daemon"), first.now);
    EXPECT_FALSE(first.core.over());
    EXPECT_TRUE(first.core.dial_at());
  }
}

TEST(ClientCredential, WhatCannotBeRepairedEndsAFirstConnect) {
  const Failure why = failure(Code::permission_denied, "the daemon's certificate has expired");
  World first;
  first.core.dialling();
  first.core.dial_failed(why, first.now);
  ASSERT_TRUE(first.core.over());
  EXPECT_EQ(first.core.over()->detail, why.detail);
  World several(1, {"a:1", "b:1"});
  several.core.dialling();
  several.core.dial_failed(why, several.now);
  EXPECT_FALSE(several.core.over()) << "the other daemon may be good";
  World later;
  later.open();
  later.core.closed("gone", later.now);
  later.now = *later.core.dial_at();
  later.core.dialling();
  later.core.dial_failed(why, later.now);
  EXPECT_FALSE(later.core.over());
  later.open();
}

}  // namespace
}  // namespace c10dd::client
