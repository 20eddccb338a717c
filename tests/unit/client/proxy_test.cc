// SPDX-License-Identifier: Apache-2.0
// The node proxy with its sockets and its thread, between raw clients of TCPStore and a daemon that
// closes in the middle of a reply, replies late, refuses or is silent.
#include "client/proxy/proxy.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/client/process_tools.h"
#include "tests/unit/client/proxy_world.h"
#include "tests/unit/client/store_client.h"
#include "tests/unit/comes_true.h"

namespace c10dd::proxy {
namespace {

using namespace std::chrono_literals;
using client::reply_to;
using client::Sent;
using tcpstore::Query;
using test::comes_true;
using test::FakeReply;
using test::StoreClient;
using Then = FakeReply::Then;

Bytes text_reply(std::string_view value) {
  Bytes bytes;
  tcpstore::put_text(bytes, value);
  return bytes;
}

using ProxyTest = ProxyWorld;

TEST_F(ProxyTest, EachClientHasASessionOfItsOwnWhichSaysGoodbye) {
  follow([](const Sent& one) -> std::optional<FakeReply> {
    const auto* add = std::get_if<Add>(&one.request);
    if (add == nullptr || std::string_view(add->key) != "later") return std::nullopt;
    return FakeReply{client::World::bytes(one.header.op, one.header.sequence, ReplyBody(Counter{1}),
                                          Stamp{7, 1, 9})};
  });
  const Proxy proxy(settings());
  {
    StoreClient first(proxy.port());
    first.say_pid(41);
    EXPECT_EQ(first.add("n"), 1);
    StoreClient second(proxy.port());
    second.say_pid(42);
    EXPECT_EQ(second.add("n"), 2);
    EXPECT_EQ(first.add("later"), 1);
    const std::vector<Hello> both = hellos();
    ASSERT_EQ(both.size(), 2u);
    EXPECT_NE(both[0].session, both[1].session);
    EXPECT_EQ(both[0].pid, 41u);
    EXPECT_EQ(both[1].pid, 42u);
    EXPECT_EQ(both[1].job, "job");
    EXPECT_EQ(both[1].run, "run");
    EXPECT_EQ(both[1].host, "node");
    EXPECT_EQ(both[0].seen, Stamp());
    EXPECT_EQ(both[1].seen, (Stamp{7, 1, 1})) << "a daemon that has lost its state is refused";
    EXPECT_EQ(proxy.counts().clients, 2u);
    EXPECT_EQ(proxy.counts().accepted, 2u);
  }
  EXPECT_TRUE(is_left(proxy));
  EXPECT_EQ(asked(Goodbye::op.code).size(), 2u);
  StoreClient third(proxy.port());
  EXPECT_EQ(third.add("n"), 3);
  EXPECT_EQ(hellos().at(2).seen, (Stamp{7, 1, 9})) << "also when all others have gone";
  const ProxyCounts counts = proxy.counts();
  EXPECT_EQ(counts.accepted, 3u);
  EXPECT_EQ(counts.closed + counts.refused + counts.reissued + counts.unanswered, 0u);
  EXPECT_EQ(said(), "");
}

TEST_F(ProxyTest, AChangeWhoseReplyIsCutIsAskedAgainUnderItsSequenceAndCounted) {
  int cuts = 0;
  follow([&](const Sent& one) -> std::optional<FakeReply> {
    if (one.header.op != Add::op.code || cuts++ % 2 == 1) return std::nullopt;
    const Bytes whole = reply_to(one, ReplyBody(Counter{99}));
    return FakeReply{whole.substr(0, whole.size() / 2), Then::close};
  });
  const Proxy proxy(settings());
  {
    StoreClient first(proxy.port());
    StoreClient second(proxy.port());
    EXPECT_EQ(first.add("n"), 1);
    EXPECT_EQ(second.add("m"), 1);
    const std::vector<Sent> adds = asked(Add::op.code);
    ASSERT_EQ(adds.size(), 4u);
    EXPECT_EQ(adds[0].header.sequence, adds[1].header.sequence);
    EXPECT_EQ(adds[2].header.sequence, adds[3].header.sequence);
    EXPECT_EQ(proxy.counts().reissued, 2u);
  }
  EXPECT_TRUE(is_left(proxy));
  EXPECT_EQ(proxy.counts().reissued, 2u) << "also of those that have gone";
  EXPECT_EQ(proxy.counts().closed, 0u);
}

TEST_F(ProxyTest, AReplyAfterTheClientHasGivenUpIsDropped) {
  Bytes late;
  follow([&](const Sent& one) -> std::optional<FakeReply> {
    if (one.header.op == Wait::op.code) {
      late = reply_to(one, ReplyBody(Done{}));
      return FakeReply{};
    }
    if (one.header.op == Cancel::op.code) return FakeReply{std::exchange(late, "")};
    return std::nullopt;
  });
  const Proxy proxy(settings());
  StoreClient waits(proxy.port());
  StoreClient other(proxy.port());
  waits.send({.query = Query::wait, .keys = {"never"}});
  EXPECT_TRUE(comes_true([&] { return asked(Wait::op.code).size() == 1; }));
  EXPECT_EQ(other.add("n"), 1);
  EXPECT_EQ(proxy.counts().waits, 1u);
  EXPECT_EQ(proxy.counts().unanswered, 1u);
  waits.send({.query = Query::cancel_wait});
  EXPECT_EQ(waits.receive(1), Bytes(1, static_cast<char>(tcpstore::kWaitCancelled)));
  EXPECT_EQ(waits.add("n"), 2) << "not the late reply";
  EXPECT_EQ(proxy.counts().waits + proxy.counts().unanswered, 0u);
}

TEST_F(ProxyTest, AClientWhoseChangeIsRefusedIsClosedAndTheOtherGoesOn) {
  follow([](const Sent& one) -> std::optional<FakeReply> {
    if (one.header.op != Set::op.code) return std::nullopt;
    return FakeReply{reply_to(one, failure(Code::quota_exceeded, "too many keys"))};
  });
  const Proxy proxy(settings());
  StoreClient refused(proxy.port());
  StoreClient other(proxy.port());
  refused.say_pid(42);
  EXPECT_EQ(other.add("n"), 1);
  refused.send({.query = Query::set, .key = "k", .value = "v"});
  EXPECT_TRUE(refused.ends());
  EXPECT_TRUE(comes_true([&] { return proxy.counts().clients == 1; }));
  EXPECT_EQ(proxy.counts().closed, 1u);
  EXPECT_EQ(said(), "proxy: closed the connection of process 42: too many keys\n");
  EXPECT_EQ(other.add("n"), 2);
}

TEST_F(ProxyTest, AClientThatClosesInTheMiddleOfARequestLeavesNothing) {
  const std::ptrdiff_t before = test::open_descriptors();
  {
    const Proxy proxy(settings());
    for (int round = 0; round < 2; ++round) {
      StoreClient whole(proxy.port());
      EXPECT_EQ(whole.add("n"), round + 1);
      const Bytes set = whole.bytes_of({.query = Query::set, .key = "k", .value = "value"});
      whole.send_bytes(set.substr(0, set.size() - 2));
      StoreClient silent(proxy.port());  // never asks for anything
      EXPECT_TRUE(comes_true([&] { return proxy.counts().clients == 2; }));
    }
    EXPECT_TRUE(is_left(proxy));
    EXPECT_TRUE(asked(Set::op.code).empty());
    EXPECT_EQ(hellos().size(), 2u);
    EXPECT_EQ(asked(Goodbye::op.code).size(), 2u);
    EXPECT_EQ(proxy.counts().closed, 0u);
  }
  EXPECT_EQ(said(), "");
  EXPECT_TRUE(comes_true([&] { return test::open_descriptors() <= before + 2; }))
      << "but for those of the daemon";
}

TEST_F(ProxyTest, AClientThatDoesNotReadHoldsUpOnlyItself) {
  const Bytes large(limits::kValueBytes, 'v');
  follow([&](const Sent& one) -> std::optional<FakeReply> {
    if (one.header.op != Get::op.code) return std::nullopt;
    return FakeReply{reply_to(one, ReplyBody(Value{large, 1}))};
  });
  const Proxy proxy(settings());
  StoreClient slow(proxy.port());
  StoreClient other(proxy.port());
  slow.send({.query = Query::get, .key = "k"});
  slow.send({.query = Query::get, .key = "k"});
  EXPECT_TRUE(comes_true([&] { return !asked(Get::op.code).empty(); }));
  EXPECT_EQ(other.add("n"), 1);
  const Bytes expected = text_reply(large);
  EXPECT_TRUE(slow.receive(expected.size()) == expected);
  EXPECT_TRUE(slow.receive(expected.size()) == expected);
  EXPECT_EQ(slow.add("n"), 2);
}

TEST_F(ProxyTest, ARequestThatFillsTheSocketArrivesWhole) {
  const Bytes large(limits::kValueBytes, 'v');
  std::size_t got = 0;
  follow([&](const Sent& one) -> std::optional<FakeReply> {
    if (one.header.op != Set::op.code) return std::nullopt;
    got += std::string_view(std::get<Set>(one.request).value) == large ? 1 : 0;
    return FakeReply{reply_to(one, ReplyBody(Written{1}))};
  });
  const Proxy proxy(settings());
  StoreClient first(proxy.port());
  for (int i = 0; i < 2; ++i) {
    first.send({.query = Query::set, .key = "k", .value = large});
  }
  EXPECT_EQ(first.add("n"), 1);
  EXPECT_EQ(asked(Set::op.code).size(), 2u);
  EXPECT_EQ(got, 2u);
}

TEST_F(ProxyTest, AnotherUserIsRefusedAndPeopleAreToldOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Proxy proxy(settings());
  StoreClient own(proxy.port());
  EXPECT_EQ(own.add("n"), 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(test::holds_in_child([&] {
      if (setresuid(65'533, 65'533, 65'533) != 0) return false;
      const auto stranger =
          client::dial("127.0.0.1:" + std::to_string(proxy.port()), -1, std::chrono::seconds(60));
      pollfd end{stranger->get(), POLLIN, 0};
      char byte = 0;
      return ::poll(&end, 1, 60'000) == 1 && ::recv(stranger->get(), &byte, 1, 0) == 0;
    }));
  }
  const ProxyCounts counts = proxy.counts();
  EXPECT_EQ(counts.refused, 2u);
  EXPECT_EQ(counts.accepted, 1u);
  EXPECT_EQ(
      said(),
      "proxy: 1 client was refused, the last one of uid 65533: the proxy serves only uid 0, "
      "which has started it; run the client as that user, or start it with a proxy of its own "
      "(c10drun, c10dd://)\n");
  EXPECT_EQ(own.add("n"), 2);
}

}  // namespace
}  // namespace c10dd::proxy
