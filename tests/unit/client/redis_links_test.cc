// SPDX-License-Identifier: Apache-2.0
// The connections of the store on Redis: what wakes a call that waits, messages and replies that
// come late, two stores and two threads at once, and that no connection is kept that is subscribed
// or may be one reply behind.
#include <future>

#include "tests/unit/client/foreign_fakes.h"
#include "tests/unit/client/foreign_links.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::error_of;
using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Then = FakeReply::Then;

constexpr auto kLong = 120s;  // no test waits for it

/// A confirmation, or a message, of the channel of a name of the job.
std::string subscribed(const std::string& name) {
  return resp_array(
      {resp_text("subscribe"), resp_text("c10dd-store:{job}:came:" + name), ":1\r\n"});
}
std::string told(const std::string& name) {
  return resp_array(
      {resp_text("message"), resp_text("c10dd-store:{job}:came:" + name), resp_text("")});
}
std::string unsubscribed(int left) {
  return resp_array(
      {resp_text("unsubscribe"), resp_text("c"), ":" + std::to_string(left) + "\r\n"});
}

class RedisLinks : public test::ForeignLinks {
 protected:
  RedisLinks()
      : ForeignLinks("redis://", "/job", test::redis::take_command, test::redis::good_redis_reply) {
  }
};

TEST_F(RedisLinks, AMessageWakesTheCallThatWaits) {
  server_.say(
      "get",
      {{resp_array({"$-1\r\n"})}, {resp_array({"$-1\r\n"})}, {resp_array({resp_text("v")})}});
  server_.say("SUBSCRIBE", {{subscribed("k"), {}, told("k")}});
  auto value = std::async(std::launch::async, [&] { return store_->get("k", kLong); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_TRUE(comes_true([&] { return server_.asked("get") == 2; })) << "after it has subscribed";
  EXPECT_EQ(value.wait_for(0s), std::future_status::timeout);
  server_.release();
  ASSERT_TRUE(ends(value));
  EXPECT_EQ(value.get(), "v");
  EXPECT_EQ(server_.asked("get"), 3);
  EXPECT_EQ(server_.asked("UNSUBSCRIBE"), 1);
  EXPECT_EQ(server_.connections(), 2);
  store_->set("k", "w");
  EXPECT_EQ(store_->append("k", "x"), 1U);
  EXPECT_EQ(server_.connections(), 2) << "both are used again";
}

TEST_F(RedisLinks, ACallLooksWhenAllThatIsMissingHasCome) {
  server_.say("exist", {{resp_text("010")}, {resp_text("010")}, {resp_text("111")}});
  server_.say("SUBSCRIBE", {{told("m") + subscribed("k") + subscribed("m"),
                             {},
                             told("k") + told("k") + told("l") + told("m")}});
  auto done = std::async(std::launch::async, [&] { store_->wait({"k", "l", "m"}, kLong); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(done.wait_for(0s), std::future_status::timeout)
      << "a message before the confirmation does not count";
  server_.release();
  ASSERT_TRUE(ends(done));
  done.get();
  EXPECT_EQ(server_.asked("exist"), 3);
}

TEST_F(RedisLinks, ACallWaitsAgainIfAnotherWasFaster) {
  server_.say("pop", {{"$-1\r\n"}, {"$-1\r\n"}, {"$-1\r\n"}, {resp_text("item")}});
  server_.say("SUBSCRIBE", {{subscribed("q") + told("q"), {}, told("q")}});
  auto item = std::async(std::launch::async, [&] { return store_->queue_pop("q", kLong); });
  EXPECT_TRUE(comes_true([&] { return server_.asked("pop") == 3; }));
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  server_.release();
  ASSERT_TRUE(ends(item));
  EXPECT_EQ(item.get(), "item");
}

TEST_F(RedisLinks, AWaitThatIsOverLooksOnceMoreAndLeavesNoSubscription) {
  server_.say("SUBSCRIBE", {{subscribed("k")}});
  server_.say("UNSUBSCRIBE", {{told("k") + unsubscribed(1) + unsubscribed(0)}});
  EXPECT_EQ(error_of([&] { store_->wait({"k"}, 20ms); }).first, Code::timed_out);
  const int looks = server_.asked("exist");
  EXPECT_LE(looks, 3);
  EXPECT_EQ(server_.asked("SUBSCRIBE"), server_.asked("UNSUBSCRIBE"));
  EXPECT_EQ(store_->append("k", "x"), 1U);
  EXPECT_EQ(store_->count(""), 1U) << "no reply is left over";
}

TEST_F(RedisLinks, AFailureWhileItIsSubscribedEndsThatConnection) {
  server_.say("get", {{resp_array({"$-1\r\n"})}, {"-WRONGTYPE no\r\n"}});
  server_.say("SUBSCRIBE", {{subscribed("k")}});
  EXPECT_EQ(error_of([&] { store_->get("k", kLong); }).first, Code::wrong_type);
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 1; }));
  EXPECT_EQ(store_->append("k", "x"), 1U);
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(RedisLinks, AWaitGoesOnAfterALostConnection) {
  server_.say(
      "get",
      {{resp_array({"$-1\r\n"})}, {resp_array({"$-1\r\n"})}, {resp_array({resp_text("v")})}});
  server_.say("SUBSCRIBE", {{subscribed("k"), Then::close}, {subscribed("k")}});
  EXPECT_EQ(store_->get("k", kLong), "v");
  EXPECT_EQ(server_.asked("SUBSCRIBE"), 2);
  server_.say("get", {{resp_array({"$-1\r\n"})}, {resp_array({resp_text("w")})}});
  server_.say("SUBSCRIBE", {{"-BUSY\r\n"}, {subscribed("k"), Then::close}});
  EXPECT_EQ(store_->get("k", kLong), "w") << "it refuses once, and then serves";
  EXPECT_EQ(server_.asked("SUBSCRIBE"), 4);
}

TEST_F(RedisLinks, ALateReplyGoesToItsCallAlthoughOthersAreMade) {
  server_.say("append", {{"", {}, ":5\r\n"}, {":6\r\n"}});
  auto late = std::async(std::launch::async, [&] { return store_->append("k", "v"); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(store_->append("k", "v"), 6U) << "on a connection of its own";
  server_.release();
  ASSERT_TRUE(ends(late));
  EXPECT_EQ(late.get(), 5U);
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(RedisLinks, AConnectionThatTheServerHasClosedMeanwhileIsNotUsedAgain) {
  server_.say("append", {{":1\r\n", Then::close}});
  // The kernel may tell of the end a moment later.
  EXPECT_TRUE(comes_true([&] {
    const auto append = [&] { store_->append("k", "v"); };
    if (error_of(append).first != Code::ok) return false;
    EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 0; }));
    return error_of(append).first == Code::ok;
  }));
}

TEST_F(RedisLinks, AServerThatClosesInAReadServesTheNextTime) {
  server_.say("ZLEXCOUNT", {{":1", Then::close}, {"-LOADING\r\n"}, {":4\r\n"}});
  EXPECT_EQ(store_->count(""), 4U);
  EXPECT_EQ(server_.connections(), 2);
  server_.say("push", {{":1", Then::close}, {":5\r\n"}});
  EXPECT_EQ(error_of([&] { store_->queue_push("q", "v"); }).first, Code::outcome_unknown);
  EXPECT_EQ(server_.asked("push"), 1) << "a change is not repeated";
  EXPECT_EQ(store_->queue_push("q", "v"), 5U);
}

TEST_F(RedisLinks, TwoStoresOnTwoServersDoNotMeet) {
  test::FakeServer other(test::redis::take_command, test::redis::good_redis_reply);
  other.say("append", {{":2\r\n"}});
  auto second = open(other);
  server_.say("append", {{"", {}, ":1\r\n"}});
  auto first = std::async(std::launch::async, [&] { return store_->append("k", "v"); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(second->append("k", "v"), 2U);
  second.reset();
  EXPECT_TRUE(comes_true([&] { return other.open_connections() == 0; }));
  server_.release();
  ASSERT_TRUE(ends(first));
  EXPECT_EQ(first.get(), 1U);
}

}  // namespace
}  // namespace c10dd
