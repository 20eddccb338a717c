// SPDX-License-Identifier: Apache-2.0
// Which server the Sentinels name: several of them, of which some are absent, silent, late, lie, or
// want a login.
#include <gtest/gtest.h>

#include "store/redis/client.h"
#include "tests/integration/reserved_port.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;
using test::resp_array;
using test::resp_text;

FakeReply names_master(const std::string& host, int port) {
  return {resp_array({resp_text(host), resp_text(std::to_string(port))})};
}

class SentinelTest : public testing::Test {
 protected:
  SentinelTest() {
    address_.sentinels = {{"127.0.0.1", one_.port()}, {"127.0.0.1", two_.port()}};
    address_.master = "main";
    address_.host = "before";
    address_.port = 7;
  }
  /// Asks, and returns the host and port, or the failure.
  std::string find(Duration patience = 60s) {
    const Result<void> found = find_redis_master(address_, patience);
    code_ = found ? Code::ok : found.error().code;
    return found ? address_.host + " " + std::to_string(address_.port) : found.error().detail;
  }
  static std::string where(const FakeRedis& sentinel) {
    return "redis: the Sentinel at 127.0.0.1:" + std::to_string(sentinel.port()) + ": ";
  }
  bool none_is_open() {
    return test::comes_true(
        [&] { return one_.server().open_connections() + two_.server().open_connections() == 0; });
  }

  FakeRedis one_, two_;
  RedisAddress address_;
  Code code_ = Code::ok;
};

TEST_F(SentinelTest, TheFirstThatKnowsTheMasterDecides) {
  one_.say("SENTINEL", {names_master("10.0.0.1", 65535)});
  two_.say("SENTINEL", {names_master("10.0.0.2", 2)});
  EXPECT_EQ(find(), "10.0.0.1 65535");
  EXPECT_EQ(one_.commands("SENTINEL"),
            (std::vector<FakeRedis::Words>{{"SENTINEL", "get-master-addr-by-name", "main"}}));
  EXPECT_TRUE(two_.names().empty());
  one_.say("SENTINEL", {{"$-1\r\n"}, names_master("10.0.0.3", 3)});
  EXPECT_EQ(find(), "10.0.0.2 2");
  EXPECT_EQ(find(), "10.0.0.3 3") << "it has refused once";
  EXPECT_TRUE(none_is_open());
}

TEST_F(SentinelTest, NamesTheLastOneThatFailedAndKeepsTheAddress) {
  one_.say("SENTINEL", {{"-ERR \x1bno\r\n"}});
  two_.say("SENTINEL", {{":1\r\n"}});
  EXPECT_EQ(find(), where(two_) + "unexpected reply");
  EXPECT_EQ(code_, Code::unavailable);
  two_.say("SENTINEL", {{"-ERR \x1bno\r\n"}});
  EXPECT_EQ(find(), where(two_) + "ERR ?no");
  EXPECT_EQ(code_, Code::permission_denied);
  two_.say("SENTINEL", {{"*2\r\n", FakeReply::Then::close}});
  EXPECT_EQ(find(), where(two_) + "the server closed the connection");
  EXPECT_EQ(code_, Code::unavailable);
  EXPECT_EQ(address_.host + std::to_string(address_.port), "before7");
  EXPECT_TRUE(none_is_open());
}

TEST_F(SentinelTest, OneThatKnowsNoMasterIsBelievedIfTheOthersAreOfNoUse) {
  const test::ReservedPort absent;
  one_.say("SENTINEL", {{"$-1\r\n"}});
  address_.sentinels[1].second = absent.number();
  EXPECT_NE(find().find("do not know a master \"main\""), std::string::npos);
  EXPECT_EQ(code_, Code::invalid_argument);
  one_.say("SENTINEL", {{"*0\r\n"}});
  EXPECT_NE(find().find("Connection refused"), std::string::npos);
  EXPECT_EQ(code_, Code::unavailable);
  address_.sentinels.clear();
  EXPECT_EQ(find(), "there is no Sentinel");
}

TEST_F(SentinelTest, ASilentOneDelaysOnlyItsOwnPatience) {
  one_.say("SENTINEL", {{"", {}, names_master("10.0.0.9", 9).bytes}});
  two_.say("SENTINEL", {names_master("10.0.0.2", 2)});
  EXPECT_TRUE(test::comes_true([&] { return find(30ms) == "10.0.0.2 2"; }));
  EXPECT_TRUE(test::comes_true([&] { return one_.server().held() > 0; }));
  address_.sentinels.pop_back();
  EXPECT_EQ(find(30ms), where(one_) + "no reply within 0.03 s");
}

TEST_F(SentinelTest, LogsInAndAsksAlthoughTheLoginIsRefused) {
  address_.password = "hunter2";
  one_.say("AUTH", {{"-ERR no password is set\r\n"}, {"+OK\r\n"}});
  one_.say("SENTINEL", {names_master("10.0.0.1", 1)});
  EXPECT_EQ(find(), "10.0.0.1 1");
  address_.user = "ada";
  EXPECT_EQ(find(), "10.0.0.1 1");
  EXPECT_EQ(one_.commands("AUTH"),
            (std::vector<FakeRedis::Words>{{"AUTH", "hunter2"}, {"AUTH", "ada", "hunter2"}}));
  one_.say("AUTH", {{"+O", FakeReply::Then::close}});
  two_.say("SENTINEL", {names_master("10.0.0.2", 2)});
  EXPECT_EQ(find(), "10.0.0.2 2");
}

TEST_F(SentinelTest, AReplicaThatTheyNameIsRefused) {
  FakeRedis replica;
  replica.say("ROLE", {{resp_array({resp_text("slave")})}});
  one_.say("SENTINEL", {names_master("127.0.0.1", replica.port())});
  const auto client = RedisClient::open(address_, 60s);
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().detail.find("a failover is under way"), std::string::npos);
  FakeRedis master;
  one_.say("SENTINEL", {names_master("127.0.0.1", master.port())});
  EXPECT_EQ(RedisClient::open(address_, 60s).value()->address().port, master.port());
}

}  // namespace
}  // namespace c10dd::store
