// SPDX-License-Identifier: Apache-2.0
// What only the store on Redis has: its URL and module, and what its errors say.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>

#include "client/errors.h"
#include "client/store.h"
#include "client/stores/remote_store.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/client/thrown_error.h"
#include "tests/unit/store/fake_redis.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd {
namespace {

using test::error_of;
using test::has;

using namespace std::chrono_literals;
using CodeAndText = std::pair<Code, std::string>;

class RedisStore : public testing::Test {
 protected:
  void SetUp() override {
    if (!store::RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    server_ = std::make_unique<store::RedisServer>();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  std::string key(const std::string& rest) const { return "c10dd-store:{job}:" + rest; }

  std::unique_ptr<store::RedisServer> server_;
};

TEST(RedisStoreUrl, SaysWhatIsWrongAndNoPassword) {
  for (const std::string url :
       {"redis:", "redis:/h/j", "redis://h", "redis://h/", "redis://h/a/b", "redis://h/a{b}",
        "redis://:@h/j", "redis://:hunter2@h:0/j", "redis://hunter2@h/j"}) {
    const auto [code, text] = error_of([&] { open_store(url); });
    EXPECT_EQ(code, Code::invalid_argument) << url;
    EXPECT_TRUE(has(text, "redis://[[user]:password@]host:port/job")) << url;
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  }
  const auto [code, text] = error_of([] { open_store("zookeeper://h/j"); });
  EXPECT_TRUE(has(text, "redis://[[user]:password@]host:port/job")) << "the forms that there are";
}

TEST(StoreModule, ABrokenModuleIsNamedWithWhatToInstall) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() + "/libc10dd_store_etcd.so") << "this is no shared object";
  ::setenv("C10DD_STORE_PATH", folder.path().c_str(), 1);
  const auto [code, text] = error_of([] { open_store("etcd://127.0.0.1:1/job"); });
  ::unsetenv("C10DD_STORE_PATH");
  EXPECT_EQ(code, Code::unsupported);
  EXPECT_TRUE(has(text, "libc10dd_store_etcd.so"));
  EXPECT_TRUE(has(text, "needs the package libboost-json1.81.0"));
}

TEST(RedisStoreServer, AnAbsentServerIsNamedWithWhatToDo) {
  const test::ReservedPort port;
  const auto [code, text] =
      error_of([&] { client::open_remote_store("redis://" + port.address() + "/job", 200ms); });
  EXPECT_EQ(code, Code::timed_out);
  EXPECT_TRUE(has(text, "Redis at " + port.address() + ": connect: connection refused; start a"));
}

TEST_F(RedisStore, AWrongPasswordIsRefusedAtOnce) {
  server_->command({"CONFIG", "SET", "requirepass", "hunter2"});
  for (const std::string login : {"", ":wrong@", "ada:hunter2@"}) {
    const auto [code, text] =
        error_of([&] { open_store("redis://" + login + address() + "/job"); });
    EXPECT_EQ(code, Code::permission_denied) << text;
    EXPECT_TRUE(has(text, "Redis at " + address() + ": the server refuses the command: "));
    EXPECT_TRUE(has(text, "check the user and password in the URL"));
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  }
  const auto store = open_store("redis://:hunter2@" + address() + "/job");
  store->set("k", "v");
  EXPECT_EQ(store->get("k", 0s), "v");
}

TEST_F(RedisStore, AKeyOfAnotherTypeChangesNothing) {
  const auto store = open_store("redis://" + address() + "/job");
  store->set("k", "v");
  server_->command({"DEL", key("names")});
  server_->command({"SET", key("names"), "no sorted set"});
  const auto [code, text] = error_of([&] { store->set("other", "v"); });
  EXPECT_EQ(code, Code::wrong_type);
  EXPECT_TRUE(has(text, "another program uses a key of this job"));
  EXPECT_EQ(server_->command({"HLEN", key("values")}).integer, 1);
}

TEST(RedisStoreServer, AServerThatIsNoRedisIsSaidToBeNone) {
  store::FakeRedis other(
      std::map<std::string, std::string>{{"SCRIPT", "HTTP/1.1 400 Bad Request\r\n"}});
  const auto [code, text] = error_of([&] { open_store(other.url() + "/job"); });
  EXPECT_EQ(code, Code::malformed);
  EXPECT_TRUE(has(text, "this is not a Redis server"));
}

TEST_F(RedisStore, AFullServerIsAskedAgain) {
  const auto first = open_store("redis://" + address() + "/job");
  server_->command({"CONFIG", "SET", "maxclients", "1"});
  const auto [code, text] =
      error_of([&] { client::open_remote_store("redis://" + address() + "/job", 200ms); });
  EXPECT_EQ(code, Code::timed_out) << text;
  EXPECT_TRUE(has(text, "max number of clients"));
}

TEST_F(RedisStore, ForgottenScriptsAreSentAgain) {
  const auto store = open_store("redis://" + address() + "/job");
  store->set("k", "1");
  server_->command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(store->add("k", 1), 2);
}

TEST_F(RedisStore, AWaitGoesOnOverARestartOfTheServer) {
  const auto store = open_store("redis://" + address() + "/job");
  auto value = std::async(std::launch::async, [&] { return store->get("late", 60s); });
  auto item = std::async(std::launch::async, [&] { return store->queue_pop("q", 60s); });
  EXPECT_EQ(value.wait_for(50ms), std::future_status::timeout);
  server_->kill_and_restart();
  store->set("late", "here");
  store->queue_push("q", "item");
  EXPECT_EQ(value.get(), "here");
  EXPECT_EQ(item.get(), "item");
}

TEST_F(RedisStore, AChangeWithoutAReplyHasAnUnknownOutcome) {
  test::FaultyLink link(address());
  const auto store = open_store("redis://" + link.address() + "/job");
  EXPECT_EQ(store->add("n", 1), 1);
  link.set(test::FaultyLink::Mode::lose_replies);
  auto sum = std::async(std::launch::async, [&] { return error_of([&] { store->add("n", 1); }); });
  while (server_->command({"HGET", key("values"), "n"}).text != "2") {
  }
  auto read = std::async(std::launch::async, [&] { return store->get("n", 60s); });
  link.set(test::FaultyLink::Mode::cut);
  const auto [code, text] = sum.get();
  EXPECT_EQ(code, Code::outcome_unknown);
  EXPECT_TRUE(has(text, "Redis at " + link.address()));
  link.set(test::FaultyLink::Mode::pass);
  EXPECT_EQ(read.get(), "2") << "a read is repeated";
  EXPECT_EQ(store->add("n", 1), 3);
}

TEST_F(RedisStore, AWaitLeavesNoConnectionSubscribed) {
  const auto store = open_store("redis://" + address() + "/job");
  for (int i = 0; i < 5; ++i) EXPECT_THROW(store->get("absent", 10ms), TimedOut);
  EXPECT_EQ(server_->command({"PUBSUB", "CHANNELS"}).items.size(), 0u);
  store->set("k", "v");
  EXPECT_EQ(store->get("k", 0s), "v");
}

TEST_F(RedisStore, AForkedProcessOpensItAgain) {
  const auto store = open_store("redis://" + address() + "/job");
  store->set("k", "v");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto [code, text] = error_of([&] { store->get("k", 0s); });
    const bool good = code == Code::forked && has(text, "open it again");
    ::_exit(good && open_store("redis://" + address() + "/job")->get("k", 0s) == "v" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(store->get("k", 0s), "v");
}

}  // namespace
}  // namespace c10dd
