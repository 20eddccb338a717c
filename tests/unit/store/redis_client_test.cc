// SPDX-License-Identifier: Apache-2.0
// The connection to a Redis server: the login and the checks, failures that keep it and failures
// that end it, a server that is silent, late, closes, lies, or refuses once.
#include "store/redis/client.h"

#include <gtest/gtest.h>

#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

constexpr FakeReply::Then kClose = FakeReply::Then::close;

FakeReply info_reply(const std::string& lines) { return {resp_text(lines)}; }

class RedisClientTest : public testing::Test {
 protected:
  static Result<std::unique_ptr<RedisClient>> open(const FakeRedis& server,
                                                   const std::string& user = "",
                                                   const std::string& password = "",
                                                   Duration patience = 60s) {
    RedisAddress address = server.address();
    address.user = user;
    address.password = password;
    return RedisClient::open(std::move(address), patience);
  }
  std::unique_ptr<RedisClient> opened() { return open(server_).value(); }
  /// Has a short patience, but may need several attempts.
  std::unique_ptr<RedisClient> impatient() {
    std::unique_ptr<RedisClient> client;
    EXPECT_TRUE(test::comes_true([&] {
      auto attempt = open(server_, "", "", 50ms);
      if (attempt) client = std::move(*attempt);
      return client != nullptr;
    }));
    return client;
  }
  /// The failure of open(), after which no connection may be left.
  Failure refusal(const std::string& user = "", const std::string& password = "") {
    const auto client = open(server_, user, password);
    EXPECT_FALSE(client);
    EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
    return client ? Failure{} : client.error();
  }
  std::string where() const { return "redis: 127.0.0.1:" + std::to_string(server_.port()) + ": "; }

  FakeRedis server_;
};

TEST_F(RedisClientTest, LogsInAsItIsToldAndThenLooksAtTheServer) {
  const auto plain = opened();
  EXPECT_EQ(server_.names(), (Words{"ROLE", "INFO"}));
  const auto known = open(server_, "", "hunter2").value();
  const auto named = open(server_, "ada", "hunter3").value();
  EXPECT_EQ(server_.names(),
            (Words{"ROLE", "INFO", "AUTH", "ROLE", "INFO", "AUTH", "ROLE", "INFO"}));
  EXPECT_EQ(server_.commands("AUTH"),
            (std::vector<Words>{{"AUTH", "hunter2"}, {"AUTH", "ada", "hunter3"}}));
  EXPECT_EQ(server_.server().open_connections(), 3);
}

TEST_F(RedisClientTest, ALoginThatIsRefusedIsExplained) {
  server_.say("AUTH", {{"-WRONGPASS invalid, but hunter2\r\n"}});
  Failure why = refusal("", "hunter2");
  EXPECT_EQ(why.code, Code::permission_denied);
  EXPECT_EQ(why.detail,
            where() + "WRONGPASS invalid; check the user and password in the URL of the engine");
  server_.say("AUTH", {{"-ERR max number of clients reached\r\n"}});
  why = refusal("", "hunter2");
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_EQ(why.detail, where() + "ERR max number of clients reached");
  server_.say("AUTH", {{":1\r\n"}});
  EXPECT_EQ(refusal("ada", "hunter2").detail,
            where() + "unexpected reply to AUTH; check that Redis runs there");
  server_.say("AUTH", {{"+O", kClose}});
  EXPECT_EQ(refusal("ada", "hunter2").code, Code::unavailable);
  EXPECT_TRUE(server_.commands("ROLE").empty());
}

TEST_F(RedisClientTest, ServesOnlyOnAMasterWithoutACluster) {
  server_.say("ROLE", {{resp_array({resp_text("slave")})}});
  Failure why = refusal();
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_NE(why.detail.find("use the address of its master"), std::string::npos) << why.detail;
  for (const std::string role : {"*0\r\n", "*1\r\n:1\r\n", "+master\r\n"}) {
    server_.say("ROLE", {{role}});
    EXPECT_NE(refusal().detail.find("unexpected reply to ROLE"), std::string::npos) << role;
  }
  EXPECT_TRUE(server_.commands("INFO").empty());
  server_.say("ROLE", {{resp_array({resp_text("master")})}});
  server_.say("INFO", {info_reply("run_id:a\r\ncluster_enabled:1\r\n")});
  EXPECT_EQ(refusal().code, Code::unsupported);
  server_.say("INFO", {{":1\r\n"}});
  EXPECT_NE(refusal().detail.find("unexpected reply to INFO"), std::string::npos);
}

TEST_F(RedisClientTest, ReadsTheRunIdOfTheServerFromItsLine) {
  server_.say("INFO", {info_reply("cluster_enabled:0\r\nrun_id:abc\r\nother:1\r\n"),
                       info_reply("run_id:def"), info_reply("nothing\r\n")});
  EXPECT_EQ(opened()->server(), "abc");
  EXPECT_EQ(opened()->server(), "def");
  EXPECT_EQ(opened()->server(), "");
}

TEST_F(RedisClientTest, AServerThatRefusesOnceServesTheNextTime) {
  server_.say("ROLE", {{"", kClose}, {"-LOADING\r\n"}, {resp_array({resp_text("master")})}});
  EXPECT_NE(refusal().detail.find("the server closed the connection; check that Redis runs"),
            std::string::npos);
  EXPECT_EQ(refusal().detail, where() + "LOADING");
  EXPECT_TRUE(opened()->usable());
}

TEST_F(RedisClientTest, AnErrorKeepsTheConnection) {
  const auto client = opened();
  server_.say("x", {{"-ERR no\x1b\r\n"}, {"-NOPERM no\r\n"}, {"-NOAUTH no\r\n"}, {":8\r\n"}});
  Failure why = client->call({"x"}).error();
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_EQ(why.detail, where() + "ERR no?");
  EXPECT_EQ(client->call({"x"}).error().code, Code::permission_denied);
  why = client->call({"x"}).error();
  EXPECT_EQ(why.code, Code::permission_denied);
  EXPECT_NE(why.detail.find("NOAUTH no; use redis://:PASSWORD@"), std::string::npos);
  EXPECT_EQ(client->call({"x", "y"})->integer, 8);
  EXPECT_EQ(server_.commands("x").back(), (Words{"x", "y"}));
  EXPECT_TRUE(client->usable());
  EXPECT_EQ(server_.server().connections(), 1);
}

TEST_F(RedisClientTest, ALateReplyIsNotTakenForTheNextOne) {
  const auto client = impatient();
  server_.say("x", {{"", {}, ":1\r\n"}});
  server_.say("y", {{":2\r\n"}});
  const std::string silent = where() + "no reply within 0.05 s; check that Redis runs there";
  EXPECT_EQ(client->call({"x"}).error().detail, silent);
  EXPECT_FALSE(client->usable());
  EXPECT_TRUE(test::comes_true([&] { return server_.server().held() == 1; }));
  server_.server().release();
  EXPECT_EQ(client->call({"y"}).error().detail, silent);
  EXPECT_FALSE(client->send("*1\r\n$1\r\ny\r\n"));
  EXPECT_EQ(client->receive().error().detail, silent);
  EXPECT_EQ(client->setting("y"), "");
  EXPECT_TRUE(server_.commands("y").empty());
  EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }))
      << "the client keeps the connection";
}

TEST_F(RedisClientTest, WhatIsNoReplyOrTooLargeEndsTheConnection) {
  for (const FakeReply& reply :
       {FakeReply{"hello\r\n"}, FakeReply{resp_text(std::string(100'000, 'x'))},
        FakeReply{"$5\r\nabc", kClose}}) {
    const auto client = opened();
    server_.say("x", {reply});
    const Failure why = client->call({"x"}, 100).error();
    EXPECT_EQ(why.code, Code::unavailable) << reply.bytes;
    EXPECT_FALSE(client->usable()) << reply.bytes;
    EXPECT_EQ(client->call({"ROLE"}).error().detail, why.detail) << "it says why";
  }
  EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
}

TEST_F(RedisClientTest, ReceivesRepliesInTheOrderOfTheCommands) {
  const auto client = opened();
  server_.say("x", {{":1\r\n"}, {"-ERR two\r\n"}, {":3\r\n"}});
  Bytes commands;
  for (int i = 0; i < 3; ++i) append_redis_command(commands, {"x"});
  EXPECT_TRUE(client->send(commands));
  EXPECT_EQ(client->receive()->integer, 1);
  EXPECT_EQ(client->receive()->text, "ERR two");
  EXPECT_EQ(client->receive()->integer, 3);
}

TEST_F(RedisClientTest, SaysTheCauseOfTheNewestLoss) {
  const auto client = opened();
  const RedisReply error{RedisReply::Kind::error, "ERR \x1b", 0, {}};
  EXPECT_EQ(client->unexpected("HGET", error).detail,
            where() + "unexpected reply to HGET: ERR ?; check that Redis runs there");
  EXPECT_FALSE(client->usable());
  EXPECT_EQ(client->drop("another").detail, where() + "another; check that Redis runs there");
  EXPECT_EQ(client->lost().detail, where() + "another; check that Redis runs there");
}

TEST_F(RedisClientTest, ReadsSettingsEachByItsName) {
  const auto client = opened();
  const auto pair = [](const std::string& value) {
    return FakeReply{resp_array({resp_text("name"), resp_text(value)})};
  };
  server_.say("CONFIG", {pair("1"),
                         pair("2"),
                         pair("3"),
                         pair("4"),
                         pair("5"),
                         pair("6"),
                         pair("\x1b"),
                         {"*0\r\n"},
                         {"-ERR no\r\n"},
                         pair("7")});
  const RedisSettings settings = read_redis_settings(*client);
  std::map<std::string, std::string> asked;
  int number = 0;
  for (const Words& words : server_.commands("CONFIG")) {
    EXPECT_EQ(words.at(1), "GET");
    asked[words.at(2)] = ++number == 7 ? "?" : std::to_string(number);
  }
  EXPECT_EQ(settings.appendonly, asked["appendonly"]);
  EXPECT_EQ(settings.appendfsync, asked["appendfsync"]);
  EXPECT_EQ(settings.no_appendfsync_on_rewrite, asked["no-appendfsync-on-rewrite"]);
  EXPECT_EQ(settings.maxmemory, asked["maxmemory"]);
  EXPECT_EQ(settings.maxmemory_policy, asked["maxmemory-policy"]);
  EXPECT_EQ(settings.bulk_bytes, asked["proto-max-bulk-len"]);
  EXPECT_EQ(settings.query_bytes, asked["client-query-buffer-limit"]);
  EXPECT_EQ(asked.size(), 7U);
  EXPECT_EQ(client->setting("none"), "");
  EXPECT_EQ(client->setting("none"), "");
  EXPECT_EQ(client->setting("some"), "7") << "an error keeps the connection";
}

TEST_F(RedisClientTest, TwoToTwoServersDoNotMeet) {
  FakeRedis other;
  other.say("INFO", {info_reply("run_id:other\r\n")});
  const auto one = opened();
  const auto two = open(other).value();
  EXPECT_EQ(one->server() + " " + two->server(), "0123456789 other");
  EXPECT_EQ(one->where(), where());
  EXPECT_NE(two->where(), where());
  server_.say("x", {{"", kClose}});
  other.say("x", {{":2\r\n"}});
  EXPECT_FALSE(one->call({"x"}));
  EXPECT_FALSE(one->usable());
  EXPECT_EQ(two->call({"x"})->integer, 2);
  EXPECT_EQ(other.server().open_connections(), 1);
  EXPECT_EQ(two->address().port, other.port());
}

}  // namespace
}  // namespace c10dd::store
