// SPDX-License-Identifier: Apache-2.0
// What only a daemon's store can do, with the real daemon: keys that vanish, transactions, watches,
// and queues on a network that loses answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

class JobStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    daemon_.start();
    client_ = connect();
    store_ = client_->store();
  }
  std::shared_ptr<Client> connect(ClientOptions options = {}) {
    return Client::connect("c10dd://" + daemon_.address() + "/job", std::move(options));
  }

  test::DaemonProcess daemon_{"memory:"};
  std::shared_ptr<Client> client_;
  std::shared_ptr<JobStore> store_;
};

TEST_F(JobStoreTest, IsAStoreForEverybodyElse) {
  const std::shared_ptr<Store> store = client_->store();
  make_prefix_store("p", store)->set("k", "v");
  EXPECT_EQ(store_->get("p/k", 0s), "v");
  EXPECT_EQ(store_->list("p/"), Keys{"p/k"});
}

TEST_F(JobStoreTest, EntriesSayWhichChangeWroteThem) {
  const std::uint64_t first = store_->set("k", "v", {});
  const std::uint64_t second = store_->set("other", "v", {});
  EXPECT_GT(second, first);
  const Entry entry = store_->entry("k", 0s);
  EXPECT_EQ(entry.value, "v");
  EXPECT_EQ(entry.revision, first);
  EXPECT_EQ(store_->entry("other").revision, second);
  EXPECT_THROW(store_->entry("none", 0s), NotFound);
}

TEST_F(JobStoreTest, AKeyIsRemovedAtTheEndOfItsTime) {
  KeyWatch watch = store_->watch("k");
  store_->set("k", "v", {.ttl = 50ms});
  std::vector<KeyChange> seen;  // both in one batch, if the test comes late
  while (seen.empty() || !seen.back().removed) {
    const WatchBatch batch = watch.next(10s);
    ASSERT_FALSE(batch.changes.empty()) << "not removed";
    seen.insert(seen.end(), batch.changes.begin(), batch.changes.end());
  }
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].value, "v");
  EXPECT_FALSE(store_->check({"k"}));
  store_->set("k", "v", {.ttl = 500ms});
  store_->set("k", "stays", {});
  for (std::string value; value != "stays";) value = watch.next(10s).changes.back().value;
  EXPECT_TRUE(watch.next(700ms).changes.empty()) << "the later set has no end";
  EXPECT_EQ(store_->get("k", 0s), "stays");
  EXPECT_THROW(store_->set("k", "v", {.ttl = -1s}), InvalidArgument);
}

TEST_F(JobStoreTest, AnEphemeralKeyGoesWithItsClient) {
  auto owner = connect();
  KeyWatch watch = store_->watch_prefix("alive/");
  owner->store()->set("alive/1", "here", {.ephemeral = true});
  EXPECT_EQ(watch.next(10s).changes.at(0).key, "alive/1");
  owner.reset();
  const WatchBatch end = watch.next(10s);
  ASSERT_EQ(end.changes.size(), 1u);
  EXPECT_TRUE(end.changes[0].removed);
}

TEST(JobStore, AnEphemeralKeyOutlivesItsKilledOwnerBySessionExpiry) {
  int urls[2];
  ASSERT_EQ(pipe2(urls, O_CLOEXEC), 0);
  const pid_t owner = fork();  // while there are no threads
  if (owner == 0) {
    char url[256] = "";
    if (read(urls[0], url, sizeof url - 1) <= 0) _exit(1);
    ClientOptions options;
    options.session_expiry = 1s;
    const auto client = Client::connect(url, options);
    client->store()->set("alive", "here", {.ephemeral = true});
    for (;;) pause();
  }
  test::DaemonProcess daemon("memory:");
  daemon.start();
  const std::string url = "c10dd://" + daemon.address() + "/job";
  const auto client = Client::connect(url);
  KeyWatch watch = client->store()->watch("alive");
  ASSERT_GT(write(urls[1], url.data(), url.size()), 0);
  EXPECT_EQ(watch.next(10s).changes.at(0).value, "here");
  const auto killed = std::chrono::steady_clock::now();
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  const WatchBatch end = watch.next(10s);
  ASSERT_EQ(end.changes.size(), 1u);
  EXPECT_TRUE(end.changes[0].removed);
  EXPECT_GT(std::chrono::steady_clock::now() - killed, 900ms);
  close(urls[0]);
  close(urls[1]);
}

TEST_F(JobStoreTest, TransactionsAreMadeAsAWholeOrNotAtAll) {
  const std::uint64_t first = store_->set("epoch", "6", {});
  const TransactionResult done = store_->transact(Transaction()
                                                      .if_exists("epoch")
                                                      .if_revision("epoch", first)
                                                      .if_absent("leader")
                                                      .set("leader", "rank 3")
                                                      .add("epoch", 1)
                                                      .append("log", "a")
                                                      .append("log", "b")
                                                      .push("work", "item")
                                                      .add("terms", 5));
  EXPECT_TRUE(done.applied);
  EXPECT_GT(done.revision, first);
  EXPECT_EQ(done.sums, (std::vector<std::int64_t>{7, 5}));
  EXPECT_EQ(store_->multi_get({"leader", "epoch", "log"}, 0s), (Keys{"rank 3", "7", "ab"}));
  EXPECT_EQ(store_->entry("log").revision, done.revision);
  EXPECT_EQ(store_->queue_pop("work", 0s), "item");

  const TransactionResult refused = store_->transact(Transaction()
                                                         .if_value("leader", "rank 3")
                                                         .if_absent("leader")
                                                         .remove("leader")
                                                         .set("never", ""));
  EXPECT_FALSE(refused.applied);
  EXPECT_EQ(refused.failed, 1u);
  EXPECT_FALSE(store_->check({"never"}));
  EXPECT_TRUE(store_->check({"leader"}));
  try {
    store_->transact(Transaction().set("never", "").add("leader", 1));
    ADD_FAILURE() << "the leader is no number";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::wrong_type) << e.what();
  }
  EXPECT_FALSE(store_->check({"never"}));
}

TEST_F(JobStoreTest, AWatchSeesEveryChangeInOrderFromNowOn) {
  store_->set("a/0", "before");
  KeyWatch watch = store_->watch_prefix("a/");
  store_->set("a/1", "1");
  store_->set("b", "not watched");
  store_->append("a/1", "2");
  store_->transact(Transaction().set("a/2", "x").remove("a/1"));
  std::vector<KeyChange> seen;
  while (seen.size() < 4) {
    for (KeyChange& change : watch.next(10s).changes) seen.push_back(std::move(change));
  }
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].key + "=" + seen[0].value, "a/1=1");
  EXPECT_EQ(seen[1].key + "=" + seen[1].value, "a/1=12");
  EXPECT_EQ(seen[2].key + "=" + seen[2].value, "a/2=x");
  EXPECT_EQ(seen[3].key, "a/1");
  EXPECT_TRUE(seen[3].removed);
  EXPECT_EQ(seen[2].revision, seen[3].revision);
  EXPECT_LT(seen[0].revision, seen[1].revision);
  EXPECT_TRUE(watch.next(20ms).changes.empty());
  EXPECT_TRUE(watch.next(0s).changes.empty());
}

TEST_F(JobStoreTest, ListThenWatchMissesNothing) {
  store_->set("a/0", "");
  const KeyList list = store_->list_keys("a/");
  EXPECT_EQ(list.keys, Keys{"a/0"});
  store_->set("a/1", "");
  KeyWatch watch = store_->watch_prefix("a/", list.revision + 1);
  const WatchBatch batch = watch.next(10s);
  ASSERT_EQ(batch.changes.size(), 1u);
  EXPECT_EQ(batch.changes[0].key, "a/1");
  EXPECT_EQ(batch.next, watch.from());
  KeyWatch moved = std::move(watch);
  store_->set("a/2", "");
  EXPECT_EQ(moved.next(10s).changes.at(0).key, "a/2");
}

TEST_F(JobStoreTest, AWatchOfWhatIsNoLongerKeptIsCompacted) {
  const std::uint64_t first = store_->set("k", "0", {});
  const Keys keys(1000, "many");
  for (int i = 0; i < 140; ++i) store_->multi_set(keys, Keys(1000));
  try {
    store_->watch("k", first).next(10s);
    ADD_FAILURE() << "140,000 changes ago";
  } catch (const Compacted& e) {
    EXPECT_NE(std::string(e.what()).find("list the keys again"), std::string::npos) << e.what();
  }
  EXPECT_TRUE(store_->watch("k").next(0s).changes.empty());
}

TEST_F(JobStoreTest, AWatchIsCancelledFromAnotherThread) {
  KeyWatch watch = store_->watch("k");
  auto pending = std::async(std::launch::async, [&] { return watch.next(300s); });
  EXPECT_EQ(pending.wait_for(50ms), std::future_status::timeout);
  watch.cancel();
  EXPECT_THROW(pending.get(), Aborted);
  EXPECT_THROW(watch.next(0s), Aborted);
  store_->set("k", "the connection is as it was");
  EXPECT_EQ(client_->stats().connects, 1u);
}

TEST_F(JobStoreTest, ABlockedPopHoldsUpNobodyElse) {
  auto popped = std::async(std::launch::async, [&] { return store_->queue_pop("q", 300s); });
  for (int i = 0; i < 3000; ++i) store_->add("n", 1);
  EXPECT_EQ(store_->get("n", 0s), "3000");
  store_->queue_push("q", "item");
  EXPECT_EQ(popped.get(), "item");
}

// ---- a network that loses answers --------------------------------------------------------------

class JobStoreRelay : public JobStoreTest {
 protected:
  void SetUp() override {
    JobStoreTest::SetUp();
    link_ = std::make_unique<test::FaultyLink>(daemon_.address());
  }
  std::shared_ptr<Client> through(ClientOptions options = {}) {
    return Client::connect("c10dd://" + link_->address() + "/job", std::move(options));
  }
  /// What a queue has, after a moment for what is on its way.
  std::uint64_t length_becomes(const std::string& queue, std::uint64_t wanted) {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    std::uint64_t length = store_->queue_length(queue);
    while (length != wanted && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(5ms);
      length = store_->queue_length(queue);
    }
    return length;
  }

  std::unique_ptr<test::FaultyLink> link_;
};

TEST_F(JobStoreRelay, APopWhoseAnswerWasLostGetsTheSameItem) {
  const auto client = through();
  store_->queue_push("q", "first");
  store_->queue_push("q", "second");
  link_->set(test::FaultyLink::Mode::lose_replies);
  auto popped =
      std::async(std::launch::async, [&] { return client->store()->queue_pop("q", 60s); });
  EXPECT_EQ(length_becomes("q", 1), 1u);
  link_->set(test::FaultyLink::Mode::cut);
  EXPECT_EQ(popped.wait_for(100ms), std::future_status::timeout);
  link_->set(test::FaultyLink::Mode::pass);
  EXPECT_EQ(popped.get(), "first");
  EXPECT_EQ(store_->queue_pop("q", 0s), "second");
}

TEST_F(JobStoreRelay, APopThatIsGivenUpTakesNothing) {
  const auto client = through();
  store_->queue_push("q", "item");
  link_->set(test::FaultyLink::Mode::lose_replies);
  auto popped = std::async(std::launch::async, [&] { return client->store()->queue_pop("q", 1s); });
  EXPECT_EQ(length_becomes("q", 0), 0u);
  EXPECT_THROW(popped.get(), TimedOut);
  link_->set(test::FaultyLink::Mode::cut);
  link_->set(test::FaultyLink::Mode::pass);
  EXPECT_EQ(length_becomes("q", 1), 1u);
  EXPECT_EQ(client->store()->queue_pop("q", 60s), "item");
}

TEST_F(JobStoreRelay, AClosedClientsItemGoesBack) {
  auto client = through();
  store_->queue_push("q", "item");
  link_->set(test::FaultyLink::Mode::lose_replies);
  const auto store = client->store();
  auto popped = std::async(std::launch::async, [&] { return store->queue_pop("q", 60s); });
  EXPECT_EQ(length_becomes("q", 0), 0u);
  client.reset();
  EXPECT_THROW(popped.get(), Error);
  EXPECT_EQ(length_becomes("q", 1), 1u);
}

TEST_F(JobStoreRelay, ALostSessionLeavesOnlyTheSentWriteInDoubt) {
  ClientOptions options;
  options.session_expiry = 1s;
  const auto client = through(options);
  const auto store = client->store();
  store->set("mine", "here", {.ephemeral = true});
  KeyWatch watch = store->watch("seen");
  auto waiting = std::async(std::launch::async, [&] { return store->get("late", 60s); });
  auto popping = std::async(std::launch::async, [&] { return store->queue_pop("q", 60s); });
  auto watching = std::async(std::launch::async, [&] { return watch.next(60s); });
  std::this_thread::sleep_for(50ms);
  link_->set(test::FaultyLink::Mode::lose_replies);
  auto in_doubt = std::async(std::launch::async, [&] { return store->add("n", 1); });
  EXPECT_EQ(store_->get("n", 10s), "1");
  link_->set(test::FaultyLink::Mode::cut);
  KeyWatch gone = store_->watch("mine");
  const WatchBatch removed = gone.next(10s);
  ASSERT_EQ(removed.changes.size(), 1u);
  EXPECT_TRUE(removed.changes[0].removed);
  store_->set("seen", "meanwhile");
  store_->queue_push("q", "item");
  store_->set("late", "here");
  link_->set(test::FaultyLink::Mode::pass);
  try {
    in_doubt.get();
    ADD_FAILURE() << "nobody can know";
  } catch (const OutcomeUnknown& e) {
    EXPECT_NE(std::string(e.what()).find("read the state before you repeat it"), std::string::npos)
        << e.what();
  }
  EXPECT_EQ(waiting.get(), "here");
  EXPECT_EQ(popping.get(), "item");
  EXPECT_EQ(watching.get().changes.at(0).value, "meanwhile");
  EXPECT_EQ(store->add("n", 1), 2);
  EXPECT_EQ(client->stats().sessions_lost, 1u);
  EXPECT_EQ(client->stats().connects, 2u);
}

#if C10DD_WITH_ROCKSDB

class JobStoreRestart : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }
  std::shared_ptr<Client> connect() {
    return Client::connect("c10dd://" + daemon_.address() + "/job");
  }
  void kill_and_restart() {
    daemon_.stop(SIGKILL);
    daemon_.start();
  }

  TemporaryDirectory directory_;
  test::DaemonProcess daemon_{"rocksdb:" + directory_.path() + "/state"};
};

TEST_F(JobStoreRestart, ItemsAreEachTakenOnceWhenTheDaemonIsKilled) {
  constexpr int kTakers = 3;
  constexpr int kItems = 600;
  std::vector<std::future<Keys>> takers;
  takers.reserve(kTakers);
  for (int t = 0; t < kTakers; ++t) {
    takers.push_back(std::async(std::launch::async, [client = connect()] {
      Keys taken;
      for (std::string item; (item = client->store()->queue_pop("q", 60s)) != "stop";) {
        taken.push_back(item);
      }
      return taken;
    }));
  }
  auto pushing = std::async(std::launch::async, [client = connect()] {
    for (int i = 0; i < kItems; ++i) client->store()->queue_push("q", std::to_string(10'000 + i));
    for (int t = 0; t < kTakers; ++t) client->store()->queue_push("q", "stop");
  });
  for (int kill = 0; kill < 4; ++kill) {
    std::this_thread::sleep_for(80ms);
    kill_and_restart();
  }
  pushing.get();
  Keys taken;
  for (auto& taker : takers) {
    const Keys got = taker.get();
    taken.insert(taken.end(), got.begin(), got.end());
  }
  std::sort(taken.begin(), taken.end());
  ASSERT_EQ(taken.size(), static_cast<std::size_t>(kItems));
  for (int i = 0; i < kItems; ++i) {
    EXPECT_EQ(taken[static_cast<std::size_t>(i)], std::to_string(10'000 + i));
  }
}

TEST_F(JobStoreRestart, AWatchHasNoGapAcrossARestartOrSaysSo) {
  const auto client = connect();
  const auto store = client->store();
  KeyWatch watch = store->watch("n");
  auto adding = std::async(std::launch::async, [&] {
    for (int i = 0; i < 400; ++i) store->add("n", 1);
  });
  int last = 0;
  int compactions = 0;
  for (int kills = 0; last < 400;) {
    try {
      for (const KeyChange& change : watch.next(30s).changes) {
        ASSERT_EQ(std::stoi(change.value), last + 1) << "after " << kills << " kills";
        last = std::stoi(change.value);
      }
    } catch (const Compacted&) {
      ++compactions;
      const Entry entry = store->entry("n", 30s);
      last = std::stoi(entry.value);
      watch = store->watch("n", entry.revision + 1);
    }
    if (kills < 3 && last > 100 * (kills + 1)) {
      ++kills;
      kill_and_restart();
    }
  }
  adding.get();
  EXPECT_LE(compactions, 3);
  EXPECT_EQ(client->stats().failures, static_cast<std::uint64_t>(compactions));
}

TEST_F(JobStoreRestart, EphemeralKeysAndTimesAreKeptAcrossARestart) {
  auto owner = connect();
  const auto client = connect();
  owner->store()->set("mine", "here", {.ephemeral = true});
  owner->store()->set("short", "here", {.ttl = 200ms});
  kill_and_restart();
  EXPECT_EQ(client->store()->get("mine", 0s), "here");
  KeyWatch watch = client->store()->watch_prefix("");
  bool short_is_gone = !client->store()->check({"short"});
  while (!short_is_gone) {
    for (const KeyChange& change : watch.next(10s).changes) {
      short_is_gone = short_is_gone || (change.key == "short" && change.removed);
    }
  }
  EXPECT_EQ(owner->store()->get("mine", 10s), "here");
  owner.reset();
  EXPECT_FALSE(client->store()->check({"mine"}));
}

#endif  // C10DD_WITH_ROCKSDB

}  // namespace
}  // namespace c10dd
