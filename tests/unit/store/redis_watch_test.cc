// SPDX-License-Identifier: Apache-2.0
// The watch of a Redis server that lies, denies commands, closes, or has other settings now.
#include <gtest/gtest.h>

#include "store/engines.h"
#include "store/server_watch.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

FakeReply setting_reply(const std::string& value) {
  return {resp_array({resp_text("name"), resp_text(value)})};
}

/// The replies to the questions of one look, in their order.
std::deque<FakeReply> strong_settings() {
  return {setting_reply("yes"),       setting_reply("always"),     setting_reply("no"),
          setting_reply("0"),         setting_reply("noeviction"), setting_reply("536870912"),
          setting_reply("1073741824")};
}

class RedisWatchTest : public testing::Test {
 protected:
  RedisWatchTest() {
    say(strong_settings());
    server_.say("probe", {{"*0\r\n"}});
    server_.say("EVALSHA", {{"*0\r\n"}});
  }
  /// Each look gets these settings.
  void say(const std::deque<FakeReply>& settings) {
    std::deque<FakeReply> looks;
    for (int i = 0; i < 8; ++i) looks.insert(looks.end(), settings.begin(), settings.end());
    server_.say("CONFIG", looks);
  }
  std::string look() {
    const Result<ServerState> state = watch_->look();
    code_ = state ? Code::ok : state.error().code;
    return state ? state->server + " " + state->durability + " " + state->weakness
                 : state.error().detail;
  }

  FakeRedis server_;
  std::unique_ptr<ServerWatch> watch_ = watch_server(server_.url() + "/one");
  Code code_ = Code::ok;
};

TEST_F(RedisWatchTest, TriesAllCommandsOnceAndLooksAgainOnTheSameConnection) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(look(), "0123456789 fsync ");
  EXPECT_EQ(server_.server().connections(), 1);
  EXPECT_EQ(server_.commands("probe").size(), 1U);
  EXPECT_EQ(server_.commands("probe")[0].back(), "one:probe");
  EXPECT_EQ(server_.commands("EVALSHA"),
            (std::vector<Words>{
                {"EVALSHA", "0123456789012345678901234567890123456789", "1", "one:probe"}}));
  EXPECT_EQ(server_.commands("CONFIG").size(), 21U);
}

TEST_F(RedisWatchTest, SeesSettingsThatHaveChanged) {
  EXPECT_EQ(look(), "0123456789 fsync ");
  auto weak = strong_settings();
  weak[1] = setting_reply("everysec");
  say(weak);
  EXPECT_EQ(look(), "0123456789 os redis: 127.0.0.1:" + std::to_string(server_.port()) +
                        ": the setting appendfsync is everysec, but must be always");
  auto narrow = strong_settings();
  narrow[6] = setting_reply("1000");
  say(narrow);
  EXPECT_NE(look().find("client-query-buffer-limit is 1000"), std::string::npos);
  EXPECT_EQ(code_, Code::invalid_argument);
  say(strong_settings());
  EXPECT_EQ(look(), "0123456789 fsync ");
  EXPECT_EQ(server_.server().connections(), 1);
}

TEST_F(RedisWatchTest, ConnectsAnewAfterALoss) {
  EXPECT_EQ(look(), "0123456789 fsync ");
  server_.say("CONFIG", {setting_reply("yes"), {"*2\r\n", FakeReply::Then::close}});
  EXPECT_NE(look().find("the server closed the connection"), std::string::npos);
  EXPECT_EQ(code_, Code::unavailable);
  say(strong_settings());
  server_.say("INFO", {{resp_text("run_id:new\r\n")}});
  EXPECT_EQ(look(), "new fsync ") << "it was started again";
  EXPECT_EQ(server_.server().connections(), 2);
  EXPECT_EQ(server_.commands("probe").size(), 2U);
  EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 1; }));
}

TEST_F(RedisWatchTest, NamesTheCommandThatTheUserMayNotRunUntilHeMay) {
  const auto denied = [](const std::string& error) {
    return FakeReply{resp_array({resp_text("HS\x1bT"), resp_text(error)})};
  };
  for (const std::string name : {"probe", "EVALSHA"}) {
    server_.say(name, {denied("NOPERM no"),
                       denied("ERR can't run this command"),
                       denied("OOM \x1b"),
                       {"-NOPERM no\r\n"},
                       {"-ERR no\r\n"},
                       {"*0\r\n"}});
    for (int i = 0; i < 2; ++i) {
      EXPECT_NE(look().find("may not run HS?T; allow it"), std::string::npos) << name;
      EXPECT_EQ(code_, Code::permission_denied);
    }
    EXPECT_NE(look().find(": HS?T: OOM ?"), std::string::npos) << name;
    EXPECT_EQ(code_, Code::unavailable);
    look();
    EXPECT_EQ(code_, Code::permission_denied);
    look();
    EXPECT_EQ(code_, Code::unavailable);
    EXPECT_EQ(look(), "0123456789 fsync ");
    EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 1; }))
        << "each look that failed has closed its connection";
    watch_ = watch_server(server_.url() + "/one");
  }
}

TEST_F(RedisWatchTest, TrustsNoProbeOfAnotherShape) {
  for (const std::string name : {"SCRIPT", "probe", "EVALSHA"}) {
    for (const std::string reply : {":1\r\n", "+OK\r\n", "$-1\r\n", "*1\r\n$1\r\na\r\n"}) {
      if (name == "SCRIPT" && reply[0] == '$') continue;
      watch_ = watch_server(server_.url());
      say(strong_settings());
      server_.say(name, {{reply}, {name == "SCRIPT" ? resp_text("digest") : "*0\r\n"}});
      EXPECT_NE(look().find("unexpected reply to "), std::string::npos) << name << reply;
      EXPECT_EQ(code_, Code::unavailable);
      EXPECT_EQ(look(), "0123456789 fsync ") << "it serves the next time";
    }
  }
}

TEST_F(RedisWatchTest, TwoWatchesOfTwoServersDoNotMeet) {
  FakeRedis other;
  other.say("INFO", {{resp_text("run_id:other\r\n")}});
  other.say("probe", {{"*0\r\n"}});
  other.say("EVALSHA", {{"*0\r\n"}});
  const auto second = watch_server(other.url());
  EXPECT_EQ(look(), "0123456789 fsync ");
  EXPECT_EQ(second->look()->server, "other");
  EXPECT_EQ(second->look()->durability, "os");
  EXPECT_EQ(look(), "0123456789 fsync ");
}

}  // namespace
}  // namespace c10dd::store
