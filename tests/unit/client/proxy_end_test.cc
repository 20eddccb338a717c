// SPDX-License-Identifier: Apache-2.0
// How a node proxy begins and ends: two in one process, forks, no descriptors, daemons that refuse
// or do not reply to the goodbye.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/client/listening_socket.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/client/proxy_world.h"
#include "tests/unit/client/store_client.h"

namespace c10dd::proxy {
namespace {

using namespace std::chrono_literals;
using tcpstore::Query;
using test::comes_true;
using test::FakeReply;
using test::StoreClient;

constexpr Duration kPatience = 60s;

std::string address_of(const Proxy& proxy) { return "127.0.0.1:" + std::to_string(proxy.port()); }

using ProxyEndTest = ProxyWorld;

TEST_F(ProxyEndTest, SaysGoodbyeForAllAndClosesTheirConnections) {
  auto proxy = std::make_unique<Proxy>(settings());
  StoreClient first(proxy->port());
  StoreClient second(proxy->port());
  StoreClient silent(proxy->port());
  EXPECT_EQ(first.add("n") + second.add("n"), 3);
  EXPECT_TRUE(comes_true([&] { return proxy->counts().clients == 3; }));
  const std::string address = address_of(*proxy);
  proxy.reset();
  EXPECT_TRUE(first.ends());
  EXPECT_TRUE(second.ends());
  EXPECT_TRUE(silent.ends());
  EXPECT_EQ(asked(Goodbye::op.code).size(), 2u);
  EXPECT_EQ(client::dial(address, -1, kPatience).error().code, Code::not_found);
}

TEST_F(ProxyEndTest, ClosesThoseThatWaitForAPlace) {
  const test::ManyDescriptors enough(3 * limits::kProxyClients);
  if (!enough) GTEST_SKIP() << "so many open files are not allowed";
  const std::ptrdiff_t before = test::open_descriptors();
  auto proxy = std::make_unique<Proxy>(settings());
  const std::string address = address_of(*proxy);
  std::vector<client::Descriptor> silent;
  for (std::size_t i = 0; i < limits::kProxyClients; ++i) {
    silent.push_back(std::move(*client::dial(address, -1, kPatience)));
  }
  EXPECT_TRUE(comes_true([&] { return proxy->counts().clients == limits::kProxyClients; }));
  for (int i = 0; i < 2; ++i) silent.push_back(std::move(*client::dial(address, -1, kPatience)));
  EXPECT_EQ(proxy->counts().refused, 0u);
  EXPECT_EQ(proxy->counts().accepted, limits::kProxyClients);
  proxy.reset();
  for (const client::Descriptor& one : silent) {
    pollfd end{one.get(), POLLIN, 0};
    char byte = 0;
    EXPECT_EQ(::poll(&end, 1, 60'000), 1);
    EXPECT_LE(::recv(one.get(), &byte, 1, 0), 0);
  }
  silent.clear();
  EXPECT_LE(test::open_descriptors(), before);
  EXPECT_EQ(said(), "");
}

TEST_F(ProxyEndTest, WithoutClientsItEndsAtOnceAndKeepsNothing) {
  const std::ptrdiff_t before = test::open_descriptors();
  for (int round = 0; round < 2; ++round) {
    const Proxy proxy(settings());
    EXPECT_NE(proxy.port(), 0);
    EXPECT_GT(test::open_descriptors(), before);
  }
  EXPECT_LE(test::open_descriptors(), before);
}

TEST_F(ProxyEndTest, DoesNotWaitForeverForADaemonThatIsSilent) {
  follow([](const client::Sent& one) -> std::optional<FakeReply> {
    if (one.header.op == Hello::op.code || one.header.op == Add::op.code) return std::nullopt;
    return FakeReply{};
  });
  auto proxy = std::make_unique<Proxy>(settings());
  StoreClient first(proxy->port());
  StoreClient second(proxy->port());
  EXPECT_EQ(first.add("n") + second.add("n"), 3);
  proxy.reset();
  EXPECT_TRUE(first.ends());
  EXPECT_TRUE(second.ends());
  EXPECT_EQ(asked(Goodbye::op.code).size(), 2u);
}

TEST_F(ProxyEndTest, TwoInOneProcessAreApart) {
  auto first = std::make_unique<Proxy>(settings("run1"));
  const Proxy second(settings("run2"));
  EXPECT_NE(first->port(), second.port());
  StoreClient of_first(first->port());
  StoreClient of_second(second.port());
  EXPECT_EQ(of_first.add("n"), 1);
  EXPECT_EQ(of_second.add("n"), 2);
  EXPECT_EQ(hellos().at(0).run, "run1");
  EXPECT_EQ(hellos().at(1).run, "run2");
  EXPECT_EQ(hellos().at(1).seen, Stamp()) << "what another run has seen counts nothing";
  EXPECT_EQ(second.counts().clients, 1u);
  first.reset();
  EXPECT_TRUE(of_first.ends());
  EXPECT_EQ(of_second.add("n"), 3);
  EXPECT_EQ(second.counts().accepted, 1u);
}

TEST_F(ProxyEndTest, AForkedChildKeepsNoConnectionOpenAndCannotEndTheProxy) {
  auto proxy = std::make_unique<Proxy>(settings());
  StoreClient client(proxy->port());
  EXPECT_EQ(client.add("n"), 1);
  const std::string address = address_of(*proxy);
  const pid_t child = fork();
  if (child == 0) {
    proxy.reset();  // would wait for a thread that is not here
    for (;;) pause();
  }
  EXPECT_EQ(client.add("n"), 2) << "the child has ended nothing";
  proxy.reset();
  EXPECT_TRUE(client.ends()) << "the child holds the other end";
  EXPECT_EQ(client::dial(address, -1, kPatience).error().code, Code::not_found);
  EXPECT_EQ(asked(Goodbye::op.code).size(), 1u);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(test::holds_in_child([&] {
    const Proxy own(settings("of the child"));
    return own.port() != 0 && own.counts().clients == 0;
  }));
}

TEST_F(ProxyEndTest, AcceptsAgainWhenThereAreDescriptors) {
  const Proxy proxy(settings());
  std::unique_ptr<StoreClient> client;
  {
    const test::FewDescriptors one(1);
    client = std::make_unique<StoreClient>(proxy.port());
    EXPECT_EQ(proxy.counts().accepted, 0u);
  }
  client->say_pid(41);
  StoreClient second(proxy.port());
  second.say_pid(42);
  EXPECT_EQ(proxy.counts().accepted, 2u);
}

TEST_F(ProxyEndTest, WithoutDescriptorsItDoesNotBegin) {
  const ProxySettings how = settings();
  const std::ptrdiff_t before = test::open_descriptors();
  for (const rlim_t room : {0, 1, 2, 3}) {  // the loop needs some, the listener one
    {
      const test::FewDescriptors few(room);
      EXPECT_EQ(test::error_of([&] { const Proxy proxy(how); }).first, Code::unavailable) << room;
    }
    EXPECT_LE(test::open_descriptors(), before) << room;
  }
}

TEST_F(ProxyEndTest, ServesThroughTheDaemonThatListens) {
  ProxySettings how = settings();
  {
    const test::ListeningSocket closed;
    how.daemons.insert(how.daemons.begin(), closed.address());
  }
  how.daemons.insert(how.daemons.begin(), "127.0.0.1");  // no port
  const Proxy proxy(how);
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 1; i <= 8; ++i) {  // each begins at a random one
    clients.push_back(std::make_unique<StoreClient>(proxy.port()));
    EXPECT_EQ(clients.back()->add("n"), i);
  }
  EXPECT_EQ(proxy.counts().closed, 0u);
}

TEST_F(ProxyEndTest, LeavesADaemonThatIsSilent) {
  const test::ListeningSocket silent;  // takes connections and says nothing
  ProxySettings how = settings();
  how.daemons.push_back(silent.address());
  const Proxy proxy(how);
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 8; ++i) {  // each begins at a random one
    clients.push_back(std::make_unique<StoreClient>(proxy.port()));
    clients.back()->send({.query = Query::add, .key = "n", .number = 1});
  }
  for (const auto& client : clients) EXPECT_EQ(client->receive(8).size(), 8u);
  EXPECT_EQ(proxy.counts().closed, 0u);
}

TEST_F(ProxyEndTest, BytesOfAnOldClientWithTwoMeaningsAreSettledAfterAWhile) {
  follow([](const client::Sent& one) -> std::optional<FakeReply> {
    if (one.header.op != Remove::op.code) return std::nullopt;
    return FakeReply{client::reply_to(one, ReplyBody(Removed{true}))};
  });
  const Proxy proxy(settings());
  StoreClient old(proxy.port(), tcpstore::Dialect::l0);
  old.send({.query = Query::remove, .key = "k"});
  Bytes one;
  tcpstore::put_number(one, 1);
  EXPECT_EQ(old.receive(8), one);
  EXPECT_EQ(old.add("n"), 1);
}

}  // namespace
}  // namespace c10dd::proxy
