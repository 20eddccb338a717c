// SPDX-License-Identifier: Apache-2.0
// The replies that a connection to a Redis server reads, and those that it refuses.
#include "store/redis/link.h"

#include <gtest/gtest.h>

#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;

class RedisLinkTest : public testing::Test {
 protected:
  /// Sends a command to which the server has this reply.
  void ask(const std::string& reply, FakeReply::Then then = FakeReply::Then::go_on) {
    server_.say("a", {{reply, then}});
    if (!link_) link_ = RedisLink::open("127.0.0.1", server_.port(), 60s).value();
    Bytes command;
    append_redis_command(command, {"a"});
    ASSERT_TRUE(link_->send(command));
  }
  RedisReply next(std::size_t bytes = 1000) {
    Result<RedisReply> reply = link_->receive(bytes);
    EXPECT_TRUE(reply) << reply.error().detail;
    return reply ? std::move(*reply) : RedisReply{};
  }
  std::string failure_of_next(std::size_t bytes = 1000) {
    const Result<RedisReply> reply = link_->receive(bytes);
    EXPECT_FALSE(reply);
    if (reply) return "no error";
    EXPECT_EQ(reply.error().code, Code::unavailable);
    return reply.error().detail;
  }

  FakeRedis server_;
  std::unique_ptr<RedisLink> link_;
};

TEST_F(RedisLinkTest, ReadsEachKindOfReplyFromOnePiece) {
  using Kind = RedisReply::Kind;
  ask("+OK\r\n-ERR no\r\n:-7\r\n$2\r\nab\r\n$-1\r\n*-1\r\n*2\r\n$1\r\nx\r\n*1\r\n:5\r\n");
  RedisReply reply = next();
  EXPECT_TRUE(reply.kind == Kind::status && reply.text == "OK");
  EXPECT_FALSE(reply.is_bytes());
  reply = next();
  EXPECT_TRUE(reply.kind == Kind::error && reply.text == "ERR no");
  EXPECT_TRUE(reply.is_error("ERR"));
  EXPECT_FALSE(reply.is_error("NO"));
  reply = next();
  EXPECT_TRUE(reply.kind == Kind::integer && reply.integer == -7);
  reply = next();
  EXPECT_TRUE(reply.is_bytes() && reply.text == "ab");
  EXPECT_FALSE(reply.is_error("ab"));
  EXPECT_EQ(next().kind, Kind::nil);
  EXPECT_EQ(next().kind, Kind::nil);
  reply = next();
  ASSERT_TRUE(reply.is_array(2));
  EXPECT_FALSE(reply.is_array(1));
  EXPECT_EQ(reply.items[0].text, "x");
  ASSERT_TRUE(reply.items[1].is_array(1));
  EXPECT_EQ(reply.items[1].items[0].integer, 5);
}

TEST_F(RedisLinkTest, ReadsAReplyOfManyPieces) {
  const std::string large(100'000, 'x');  // more than the buffer
  ask(test::resp_array({test::resp_text(large), ":3\r\n"}) + ":4\r\n");
  const RedisReply reply = next(1'000'000);
  ASSERT_TRUE(reply.is_array(2));
  EXPECT_TRUE(reply.items[0].text == large);
  EXPECT_EQ(next().integer, 4);
}

TEST_F(RedisLinkTest, RefusesWhatIsTooLargeAndWhatIsNoReply) {
  ask(test::resp_text(std::string(100'000, 'x')));
  EXPECT_NE(failure_of_next().find("limit 1000"), std::string::npos);
  link_.reset();
  ask("hello\r\n");
  EXPECT_NE(failure_of_next().find("rotocol error"), std::string::npos);
}

TEST_F(RedisLinkTest, SaysThatTheServerHasClosedInTheMiddleOfAReply) {
  ask("$9\r\nabc", FakeReply::Then::close);
  EXPECT_EQ(failure_of_next(), "the server closed the connection");
  link_.reset();
  EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
}

TEST(RedisReply, IsANumberOnlyAsAText) {
  std::uint64_t value = 5;
  EXPECT_TRUE((RedisReply{RedisReply::Kind::bytes, "18446744073709551615", 0, {}}.number(value)));
  EXPECT_EQ(value, UINT64_MAX);
  for (const RedisReply& reply : {RedisReply{RedisReply::Kind::status, "1", 0, {}},
                                  RedisReply{RedisReply::Kind::bytes, "-1", 0, {}},
                                  RedisReply{RedisReply::Kind::bytes, "", 0, {}},
                                  RedisReply{RedisReply::Kind::integer, "", 1, {}}}) {
    value = 7;
    EXPECT_FALSE(reply.number(value));
    EXPECT_EQ(value, 7U) << "it is left as it was";
  }
}

}  // namespace
}  // namespace c10dd::store
