// SPDX-License-Identifier: Apache-2.0
// The connections of the store on a TCPStore: a wait whose reply comes after the time-out or after
// the cancel, what the server can do, failures that the value explains, two stores and threads.
#include <cstdint>
#include <future>

#include "tests/unit/client/foreign_fakes.h"
#include "tests/unit/client/foreign_links.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::error_of;
using test::FakeReply;
using test::FakeRequest;
using test::tcp::byte;
using test::tcp::number;
using test::tcp::text;
using Then = FakeReply::Then;

class TcpLinks : public test::ForeignLinks {
 protected:
  TcpLinks() : ForeignLinks("tcp://", "", test::tcp::take_message, test::tcp::good_tcp_reply) {}
};

TEST_F(TcpLinks, AskedOnceForItsVersionAServerIsAskedNoMore) {
  EXPECT_EQ(server_.connections(), 2) << "one to recognise it";
  EXPECT_EQ(server_.asked("ping"), 2);
  EXPECT_EQ(store_->add("k", 1), 7);
  EXPECT_EQ(server_.connections(), 2);
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 1; }));
  store_->queue_length("q");
  store_->queue_length("q");
  store_->list("");
  store_->list("");
  EXPECT_EQ(server_.asked("queue_length"), 3) << "the first time it asks whether there are any";
  EXPECT_EQ(server_.asked("list_keys"), 3);
}

TEST_F(TcpLinks, AServerThatNeverReadsTheFirstBytesIsAskedOnAnotherConnection) {
  int pings = 0;  // the server uses it under its lock
  test::FakeServer deaf(test::tcp::take_message, [&](const FakeRequest& asked) {
    const bool first = asked.name == "ping" && pings++ == 0;
    return first ? FakeReply{} : test::tcp::good_tcp_reply(asked);
  });
  EXPECT_EQ(open(deaf)->add("k", 1), 7);
  EXPECT_EQ(deaf.asked("ping"), 3);
  EXPECT_TRUE(comes_true([&] { return deaf.open_connections() == 0; }));
}

TEST_F(TcpLinks, AWaitThatIsReadyAtTheLastMomentHasItsReplyBeforeTheCancels) {
  server_.say("wait", {{}});
  server_.say("cancel_wait", {{byte(0) + byte(1)}});
  EXPECT_EQ(error_of([&] { store_->wait({"k"}, 20ms); }).second, "no error");
  EXPECT_EQ(store_->add("k", 1), 7) << "no reply is left over";
  EXPECT_EQ(server_.connections(), 2);
  server_.say("cancel_wait", {{byte(0) + byte(0)}});
  const auto [code, why] = error_of([&] { store_->wait({"k"}, 20ms); });
  EXPECT_EQ(code, Code::malformed);
  EXPECT_TRUE(test::has(why, "unexpected reply to wait: got the number 0, expected 1"));
  EXPECT_EQ(store_->add("k", 1), 7);
  EXPECT_EQ(server_.connections(), 3) << "the one that lies is not used again";
}

TEST_F(TcpLinks, AWaitThatIsCancelledNamesWhatIsMissing) {
  server_.say("wait", {{}});
  server_.say("check", {{byte(0)}, {byte(1)}});
  const auto [code, why] = error_of([&] { store_->wait({"k", "l"}, 20ms); });
  EXPECT_EQ(code, Code::timed_out);
  EXPECT_TRUE(test::has(why, "1 of 2 keys missing: l"));
  EXPECT_EQ(server_.asked("cancel_wait"), 1);
  EXPECT_EQ(store_->add("k", 1), 7);
  EXPECT_EQ(server_.connections(), 2) << "the connection is still of use";
}

TEST_F(TcpLinks, TheReplyToAWaitWakesItAndLeavesOthersAlone) {
  server_.say("wait", {{"", {}, byte(0)}});
  auto value = std::async(std::launch::async, [&] { return store_->get("k", 120s); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(store_->add("k", 1), 7) << "on a connection of its own";
  server_.release();
  ASSERT_TRUE(ends(value));
  EXPECT_EQ(value.get(), "7");
  auto item = std::async(std::launch::async, [&] { return store_->queue_pop("q", 120s); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(server_.asked("queue_pop"), 0);
  server_.release();
  ASSERT_TRUE(ends(item));
  EXPECT_EQ(item.get(), "i");
}

TEST_F(TcpLinks, AQueueThatAnotherHasEmptiedIsWaitedForAgain) {
  server_.say("queue_pop", {{number(0)}, {number(1) + text("late")}});
  EXPECT_EQ(store_->queue_pop("q", 60s), "late");
  EXPECT_EQ(server_.asked("wait"), 2);
  server_.say("queue_pop", {{number(0)}});
  EXPECT_EQ(error_of([&] { store_->queue_pop("q", 0s); }).first, Code::not_found);
  EXPECT_EQ(server_.asked("queue_pop"), 3) << "without a time it looks once";
}

TEST_F(TcpLinks, AServerThatClosesInAReadServesTheNextTime) {
  server_.say("get", {{text("7").substr(0, 5), Then::close}, {text("8")}});
  EXPECT_EQ(store_->get("k", 0s), "8");
  server_.say("remove", {{"", Then::close}, {number(0)}});
  EXPECT_EQ(error_of([&] { store_->remove("k"); }).first, Code::outcome_unknown);
  EXPECT_EQ(server_.asked("remove"), 1) << "a change is not repeated";
  EXPECT_FALSE(store_->remove("k"));
  store_->queue_length("q");
  server_.say("queue_pop", {{number(1), Then::close}, {number(1) + text("x")}});
  EXPECT_EQ(error_of([&] { store_->queue_pop("q", 0s); }).first, Code::outcome_unknown);
  EXPECT_EQ(store_->queue_pop("q", 0s), "x");
}

TEST_F(TcpLinks, TheValueTellsWhyAnAddHasNoReply) {
  server_.say("add", {{"", Then::close}});
  server_.say("get", {{text("x")}, {text("9223372036854775807")}, {text("5")}});
  EXPECT_EQ(error_of([&] { store_->add("k", 1); }).first, Code::wrong_type);
  EXPECT_EQ(error_of([&] { store_->add("k", 1); }).first, Code::out_of_range);
  EXPECT_EQ(error_of([&] { store_->add("k", 1); }).first, Code::outcome_unknown);
  server_.say("add", {{number(INT64_MIN)}, {number(INT64_MIN)}});
  EXPECT_EQ(error_of([&] { store_->add("k", 1); }).first, Code::out_of_range);
  EXPECT_EQ(store_->add("k", -1), INT64_MIN);
}

TEST_F(TcpLinks, AnEmptyValueIsOneOnlyIfTheKeyExists) {
  server_.say("multi_get", {{text("v") + text("")}});
  EXPECT_EQ(store_->multi_get({"k", "l"}, 0s), (std::vector<std::string>{"v", "v"}))
      << "the reply to the question";
  server_.say("compare_set", {{text("")}});
  EXPECT_EQ(store_->multi_get({"k", "l"}, 0s), (std::vector<std::string>{"v", ""}));
  test::FakeServer without(test::tcp::take_message, [](const FakeRequest& asked) {
    if (asked.name == "get") return FakeReply{text("")};
    return asked.name == "compare_set" ? FakeReply{text(asked.argument)}
                                       : test::tcp::good_tcp_reply(asked);
  });
  const auto [code, why] = error_of([&] { open(without)->get("k", 0s); });
  EXPECT_EQ(code, Code::not_found) << why;
}

TEST_F(TcpLinks, WhatOneServerCannotDoAnotherCan) {
  test::FakeServer older(test::tcp::take_message, test::tcp::good_tcp_reply);
  older.say("queue_length", {{"", Then::close}});
  older.say("list_keys", {{"", Then::close}});
  const auto second = open(older);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { second->queue_length("q"); }).first, Code::unsupported);
    EXPECT_EQ(error_of([&] { second->list(""); }).first, Code::unsupported);
    EXPECT_EQ(store_->queue_length("q"), 1U);
    EXPECT_TRUE(store_->list("").empty());
  }
  EXPECT_EQ(older.asked("queue_length"), 1) << "it is asked once";
  EXPECT_EQ(second->add("k", 1), 7);
  EXPECT_TRUE(comes_true([&] { return older.open_connections() == 1; }));
}

TEST_F(TcpLinks, ListsOnlyItsOwnKeysInOrder) {
  server_.say("list_keys", {{number(4) + text("/kb") + text("/ka") + text("/x") + text("k")}});
  EXPECT_EQ(store_->list("k"), (std::vector<std::string>{"ka", "kb"}));
  EXPECT_EQ(store_->count("k"), 2U);
}

}  // namespace
}  // namespace c10dd
