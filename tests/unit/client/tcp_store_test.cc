// SPDX-License-Identifier: Apache-2.0
// What only the store on a TCPStore has: its URL, its prefix, the texts of what it cannot do, and
// lost connections. The server is the daemon; torch_store_kinds.cc has PyTorch's.
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "client/client.h"
#include "client/stores/remote_store.h"
#include "protocol/limits.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/client/thrown_error.h"

namespace c10dd {
namespace {

using test::error_of;
using test::has;

using namespace std::chrono_literals;

class TcpStore : public testing::Test {
 protected:
  TcpStore() { daemon_.start(); }
  std::string url() const { return "tcp://" + daemon_.address(); }

  test::DaemonProcess daemon_{"memory:"};
};

TEST(TcpStoreUrl, SaysWhatIsWrong) {
  for (const std::string url : {"tcp:", "tcp://h:0", "tcp://:p@h:1", "tcp://h:1/?rank=0"}) {
    const auto [code, text] = error_of([&] { open_store(url); });
    EXPECT_EQ(code, Code::invalid_argument) << url;
    EXPECT_TRUE(has(text, "tcp://host:port[/prefix]")) << url;
  }
}

TEST(TcpStoreServer, AnAbsentServerIsNamedWithWhatToDo) {
  const test::ReservedPort port;
  const auto [code, text] =
      error_of([&] { client::open_remote_store("tcp://" + port.address(), 200ms); });
  EXPECT_EQ(code, Code::timed_out);
  EXPECT_TRUE(has(text, "TCPStore at " + port.address() + ": connect: connection refused; start"));
}

TEST_F(TcpStore, KeysHaveTheNamesOfPyTorch) {
  const auto plain = open_store(url());
  const auto prefixed = open_store(url() + "/default_pg/0");
  prefixed->set("k", "v");
  EXPECT_EQ(plain->get("default_pg/0/k", 0s), "v");
  EXPECT_EQ(prefixed->list(""), std::vector<std::string>{"k"});
  const auto [code, text] =
      error_of([&] { prefixed->set(std::string(limits::kKeyBytes - 2, 'k'), ""); });
  EXPECT_EQ(code, Code::too_large);
  EXPECT_TRUE(has(text, "key too long: 8204 bytes with the prefix, limit 8192"));
}

TEST_F(TcpStore, WhatItCannotDoNamesAStoreThatCan) {
  const auto [code, text] = error_of([&] { open_store(url())->remove_prefix("a"); });
  EXPECT_EQ(code, Code::unsupported);
  EXPECT_TRUE(has(text, "use a store at c10dd://host:port/job or redis://host:port/job instead"));
}

TEST_F(TcpStore, AChangeWithoutAReplyHasAnUnknownOutcome) {
  test::FaultyLink link(daemon_.address());
  const auto store = open_store("tcp://" + link.address());
  EXPECT_EQ(store->add("n", 1), 1);
  link.set(test::FaultyLink::Mode::lose_replies);
  auto sum = std::async(std::launch::async, [&] { return error_of([&] { store->add("n", 1); }); });
  const auto direct = open_store(url());
  while (direct->get("n", 0s) != "2") {
  }
  auto read = std::async(std::launch::async, [&] { return store->get("n", 60s); });
  link.set(test::FaultyLink::Mode::cut);
  link.set(test::FaultyLink::Mode::pass);
  const auto [code, text] = sum.get();
  EXPECT_EQ(code, Code::outcome_unknown) << text;
  EXPECT_TRUE(has(text, "TCPStore at " + link.address()));
  EXPECT_EQ(read.get(), "2") << "a read is repeated";
}

TEST_F(TcpStore, AWaitGoesOnOverALostConnection) {
  test::FaultyLink link(daemon_.address());
  const auto store = open_store("tcp://" + link.address());
  auto value = std::async(std::launch::async, [&] { return store->get("late", 60s); });
  auto item = std::async(std::launch::async, [&] { return store->queue_pop("q", 60s); });
  EXPECT_EQ(value.wait_for(50ms), std::future_status::timeout);
  const auto direct = open_store(url());
  link.set(test::FaultyLink::Mode::cut);
  link.set(test::FaultyLink::Mode::pass);
  direct->set("late", "here");
  direct->queue_push("q", "item");
  EXPECT_EQ(value.get(), "here");
  EXPECT_EQ(item.get(), "item");
}

}  // namespace
}  // namespace c10dd
