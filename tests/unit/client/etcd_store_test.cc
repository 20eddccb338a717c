// SPDX-License-Identifier: Apache-2.0
// What only the store on etcd has: its URL, the limits of an etcd with its defaults, and lost
// connections.
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "client/errors.h"
#include "client/stores/remote_store.h"
#include "tests/bench/servers.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/integration/installed_program.h"
#include "tests/unit/client/thrown_error.h"

namespace c10dd {
namespace {

using test::error_of;
using test::has;

using namespace std::chrono_literals;

class EtcdStore : public testing::Test {
 protected:
  void SetUp() override {
    if (test::installed_program("etcd").empty()) GTEST_SKIP() << "no etcd in PATH";
    server_ = std::make_unique<bench::EtcdServer>();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->address().port); }
  std::string url() const { return "etcd://" + address() + "/job"; }

  std::unique_ptr<bench::EtcdServer> server_;
};

TEST(EtcdStoreUrl, SaysWhatIsWrong) {
  for (const std::string url : {"etcd:", "etcd://h", "etcd://h:0/j", "etcd://:p@h/j"}) {
    const auto [code, text] = error_of([&] { open_store(url); });
    EXPECT_EQ(code, Code::invalid_argument) << url;
    EXPECT_TRUE(has(text, "etcd://host:port/job")) << url;
  }
}

TEST(EtcdStoreServer, AnAbsentServerIsNamedWithWhatToDo) {
  const test::ReservedPort port;
  const auto [code, text] =
      error_of([&] { client::open_remote_store("etcd://" + port.address() + "/job", 200ms); });
  EXPECT_EQ(code, Code::timed_out);
  EXPECT_TRUE(has(text, "etcd at " + port.address() + ": connect: connection refused; start an"));
}

TEST(EtcdStoreServer, AServerThatIsNoEtcdIsSaidToBeNone) {
  test::DaemonProcess daemon("memory:");
  daemon.start();
  const auto [code, text] = error_of([&] { open_store("etcd://" + daemon.address() + "/job"); });
  EXPECT_EQ(code, Code::malformed);
  EXPECT_TRUE(has(text, "this is not an etcd server"));
}

TEST_F(EtcdStore, TheLimitsOfEtcdAreNamedWithItsOption) {
  const auto store = open_store(url());
  {
    const auto [code, text] = error_of([&] { store->set("k", std::string(3 << 20, 'v')); });
    EXPECT_EQ(code, Code::too_large) << text;
    EXPECT_TRUE(has(text, "--max-request-bytes"));
  }
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("key" + std::to_string(i));
  {
    const auto [code, text] = error_of([&] { store->multi_set(keys, keys); });
    EXPECT_EQ(code, Code::too_large) << text;
    EXPECT_TRUE(has(text, "--max-txn-ops"));
  }
  for (const std::string& key : keys) store->set(key, key);
  EXPECT_EQ(store->multi_get(keys, 0s), keys) << "reads have no such limit";
  EXPECT_TRUE(store->check(keys));
}

TEST_F(EtcdStore, QueuesWhoseNamesBeginAlikeAreApart) {
  const auto store = open_store(url());
  store->queue_push("q/", "of q/");
  EXPECT_EQ(store->queue_length("q"), 0u);
  EXPECT_THROW(store->queue_pop("q", 0s), NotFound);
  EXPECT_EQ(store->queue_pop("q/", 0s), "of q/");
}

TEST_F(EtcdStore, AChangeWithoutAReplyHasAnUnknownOutcome) {
  test::FaultyLink link(address());
  const auto store = open_store("etcd://" + link.address() + "/job");
  store->set("k", "1");
  link.set(test::FaultyLink::Mode::lose_replies);
  auto done =
      std::async(std::launch::async, [&] { return error_of([&] { store->set("k", "2"); }); });
  const auto direct = open_store(url());
  while (direct->get("k", 0s) != "2") {
  }
  auto read = std::async(std::launch::async, [&] { return store->get("k", 60s); });
  link.set(test::FaultyLink::Mode::cut);
  link.set(test::FaultyLink::Mode::pass);
  const auto [code, text] = done.get();
  EXPECT_EQ(code, Code::outcome_unknown) << text;
  EXPECT_TRUE(has(text, "etcd at " + link.address()));
  EXPECT_EQ(read.get(), "2") << "a read is repeated";
}

TEST_F(EtcdStore, AWaitGoesOnOverALostConnection) {
  test::FaultyLink link(address());
  const auto store = open_store("etcd://" + link.address() + "/job");
  auto value = std::async(std::launch::async, [&] { return store->get("late", 60s); });
  auto item = std::async(std::launch::async, [&] { return store->queue_pop("q", 60s); });
  EXPECT_EQ(value.wait_for(50ms), std::future_status::timeout);
  const auto direct = open_store(url());
  link.set(test::FaultyLink::Mode::cut);
  direct->set("late", "here");
  direct->queue_push("q", "item");
  link.set(test::FaultyLink::Mode::pass);
  EXPECT_EQ(value.get(), "here");
  EXPECT_EQ(item.get(), "item");
}

}  // namespace
}  // namespace c10dd
