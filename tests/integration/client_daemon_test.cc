// SPDX-License-Identifier: Apache-2.0
// The SDK against the real daemon: barriers, reports, losses, closing, forking.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/metrics.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Parts = std::vector<std::string>;

class ClientDaemon : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }
  std::shared_ptr<Client> connect(std::int64_t rank = -1) {
    ClientOptions options;
    options.rank = rank;
    options.host = "node" + std::to_string(rank);
    return Client::connect("c10dd://" + daemon_.address() + "/job", options);
  }

  test::DaemonProcess daemon_{"memory:"};
};

TEST_F(ClientDaemon, SaysWhoItIsConnectedTo) {
  const auto client = connect();
  EXPECT_EQ(client->job(), "job");
  EXPECT_EQ(client->address(), daemon_.address());
  client->store()->set("k", "v");
  EXPECT_THROW(client->store()->get("absent", 0s), NotFound);
  const ClientStats stats = client->stats();
  EXPECT_EQ(stats.connects, 1u);
  EXPECT_EQ(stats.calls, 2u);
  EXPECT_EQ(stats.failures, 1u);
  EXPECT_EQ(stats.reissued, 0u);
}

TEST_F(ClientDaemon, NamesARankThatHasClosedItsClient) {
  const auto client = connect(0);
  connect(1).reset();
  try {
    client->barrier("start", {.rank = 0, .world_size = 2, .timeout = 300ms});
    ADD_FAILURE() << "passed without rank 1";
  } catch (const TimedOut& error) {
    ASSERT_EQ(error.missing().size(), 1u);
    EXPECT_EQ(error.missing()[0].cause, "left");
    EXPECT_EQ(error.missing()[0].host, "node1");
    EXPECT_EQ(error.missing()[0].pid, static_cast<std::uint64_t>(getpid()));
    const std::string text = "rank 1 on node1 (pid " + std::to_string(getpid()) + ") has left: ";
    EXPECT_NE(std::string(error.what()).find(text + "it closed its session "), std::string::npos)
        << error.what();
  }
}

TEST_F(ClientDaemon, TellsAllRanksAtOnceThatTheirWorldSizesDiffer) {
  const std::vector<std::shared_ptr<Client>> clients = {connect(0), connect(1), connect(2)};
  const auto called = [&](Rank rank, std::uint32_t size) {
    return std::async(std::launch::async, [&, rank, size]() -> std::string {
      try {
        clients[rank]->exchange(
            "addresses", {"a"},
            {.rank = rank, .world_size = size, .shape = ExchangeShape::all, .timeout = 60s});
      } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.what();
      }
      return "passed";
    });
  };
  auto first = called(0, 3);
  auto second = called(1, 3);
  const auto begun = std::chrono::steady_clock::now();
  auto odd = called(2, 4);
  for (auto* one : {&first, &second, &odd}) {
    const std::string text = one->get();
    EXPECT_TRUE(text.starts_with("size_mismatch: exchange \"addresses\"")) << text;
    EXPECT_NE(text.find(" on node2 (pid "), std::string::npos) << text;
    EXPECT_NE(text.find("says world size "), std::string::npos) << text;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

TEST_F(ClientDaemon, SaysAtWhichBarrierTheDaemonWasUnreachable) {
  ClientOptions options;
  options.rank = 0;
  options.world_size = 2;
  options.timeout = 1s;
  const auto client = Client::connect("c10dd://" + daemon_.address() + "/job", options);
  daemon_.stop(SIGKILL);
  for (const bool exchanges : {false, true}) {
    try {
      if (exchanges) client->exchange("start", {"part"}, {.timeout = 500ms});
      if (!exchanges) client->barrier("start", {.timeout = 500ms});
      ADD_FAILURE() << "passed without a daemon";
    } catch (const Error& error) {
      const std::string name =
          exchanges ? "exchange \"start\" timed out" : "barrier \"start\" timed out";
      EXPECT_TRUE(std::string(error.what()).starts_with(name)) << error.what();
      EXPECT_NE(std::string(error.what()).find(daemon_.address()), std::string::npos);
    }
  }
}

TEST_F(ClientDaemon, LeasesAnEndpointForItsJob) {
  const auto client = connect();
  const LeasedEndpoint first =
      client->lease_endpoint("a", {.run = "r", .ttl = 30s, .world_size = 4});
  EXPECT_EQ(first.host, "127.0.0.1");
  EXPECT_GT(first.port, 0);
  EXPECT_EQ(first.ttl, 30s);
  const LeasedEndpoint again = connect()->lease_endpoint("a", {.run = "r"});
  EXPECT_EQ(again.port, first.port);
  EXPECT_EQ(again.ttl, 10min);
  EXPECT_NE(client->lease_endpoint("b").port, first.port);
  EXPECT_THROW(client->lease_endpoint("a"), InvalidArgument) << "it has a run";
  EXPECT_THROW(client->lease_endpoint(""), InvalidArgument);
  EXPECT_THROW(client->lease_endpoint("c", {.ttl = 1ms}), InvalidArgument);
}

TEST(ClientConnect, TimesOutWithTheReasonWhenNobodyListens) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);  // bound, but not listening
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  ClientOptions options;
  options.timeout = 200ms;
  try {
    Client::connect("c10dd://" + address + "/job", options);
    ADD_FAILURE() << "nobody listens there";
  } catch (const TimedOut& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("no session within 0.2 s"), std::string::npos) << text;
    EXPECT_NE(text.find(address), std::string::npos) << text;
    EXPECT_NE(text.find("connection refused"), std::string::npos) << text;
  }
  close(fd);
}

TEST_F(ClientDaemon, ARefusedHelloIsThrownAtOnce) {
  ClientOptions options;
  options.run = "line\nbreak";
  EXPECT_THROW(Client::connect("c10dd://" + daemon_.address() + "/job", options), InvalidArgument);
}

TEST_F(ClientDaemon, ABarrierWaitsForAllAndOneThatTimedOutHasTimedOutForAll) {
  const auto first = connect(0);
  const auto second = connect(1);
  try {
    first->barrier("b", {.rank = 0, .world_size = 2, .timeout = 50ms});
    ADD_FAILURE() << "rank 1 has not arrived";
  } catch (const TimedOut& e) {
    ASSERT_EQ(e.missing().size(), 1u) << e.what();
    EXPECT_EQ(e.missing()[0].rank, 1u);
    EXPECT_EQ(e.missing()[0].host, "node1");
    EXPECT_EQ(e.missing()[0].cause, "not_arrived");
  }
  EXPECT_THROW(second->barrier("b", {.rank = 1, .world_size = 2, .timeout = 60s}), TimedOut)
      << "it was over when it came";
  for (int round = 0; round < 3; ++round) {
    auto other = std::async(std::launch::async, [&] {
      second->barrier("b", {.rank = 1, .world_size = 2, .timeout = 60s});
    });
    first->barrier("b", {.rank = 0, .world_size = 2, .timeout = 60s});
    EXPECT_NO_THROW(other.get());
  }
}

TEST_F(ClientDaemon, ABarrierWithoutTimeNamesTheMissing) {
  const auto first = connect(0);
  const auto second = connect(1);
  try {
    first->barrier("b", {.rank = 0, .world_size = 2, .timeout = 0s});
    ADD_FAILURE() << "rank 1 has not arrived";
  } catch (const TimedOut& e) {
    ASSERT_EQ(e.missing().size(), 1u) << e.what();
    EXPECT_EQ(e.missing()[0].rank, 1u);
  }
}

/// Runs one exchange with a client per rank; what each rank got.
std::vector<Parts> exchange(const std::vector<std::shared_ptr<Client>>& clients,
                            ExchangeShape shape, const std::vector<Parts>& brought) {
  std::vector<std::future<Parts>> calls;
  calls.reserve(clients.size());
  for (std::uint32_t rank = 0; rank < clients.size(); ++rank) {
    calls.push_back(std::async(std::launch::async, [&, rank] {
      ExchangeOptions options;
      options.rank = rank;
      options.world_size = static_cast<std::uint32_t>(clients.size());
      options.shape = shape;
      options.root = 1;
      options.timeout = 60s;
      return clients[rank]->exchange("e", brought[rank], options);
    }));
  }
  std::vector<Parts> got;
  got.reserve(clients.size());
  for (auto& call : calls) got.push_back(call.get());
  return got;
}

TEST_F(ClientDaemon, ExchangesInEveryShape) {
  const std::vector clients = {connect(0), connect(1), connect(2)};
  const std::vector<Parts> one = {{"a"}, {""}, {std::string("\0c", 2)}};
  const Parts all = {"a", "", std::string("\0c", 2)};
  using Shape = ExchangeShape;
  EXPECT_EQ(exchange(clients, Shape::all, one), (std::vector<Parts>{all, all, all}));
  EXPECT_EQ(exchange(clients, Shape::to_root, one), (std::vector<Parts>{{}, all, {}}));
  EXPECT_EQ(exchange(clients, Shape::from_root, {{}, {"x", "y", "z"}, {}}),
            (std::vector<Parts>{{"x"}, {"y"}, {"z"}}));
  EXPECT_EQ(exchange(clients, Shape::from_root, {{}, {"x"}, {}}),
            (std::vector<Parts>{{"x"}, {"x"}, {"x"}}));
  EXPECT_EQ(exchange(clients, Shape::transpose,
                     {{"00", "01", "02"}, {"10", "11", "12"}, {"20", "21", "22"}}),
            (std::vector<Parts>{{"00", "10", "20"}, {"01", "11", "21"}, {"02", "12", "22"}}));
}

TEST_F(ClientDaemon, ExchangesMoreThanOneChunk) {
  const std::vector clients = {connect(0), connect(1)};
  const Parts all = {std::string(3'500'001, 'a'), std::string(2'000'003, 'b')};
  EXPECT_EQ(exchange(clients, ExchangeShape::all, {{all[0]}, {all[1]}}),
            (std::vector<Parts>{all, all}));
}

TEST_F(ClientDaemon, ReportsReachTheMetricsOnceAndAreNotCountedTwice) {
  const auto client = connect();
  CollectiveSample sample;
  sample.process_group = "dp";
  sample.collective = "all_reduce";
  sample.backend = "loopback";
  sample.duration = 3ms;
  sample.payload_bytes = 10;
  for (int i = 0; i < 7; ++i) client->record(sample);
  EXPECT_EQ(client->recorded().at(0).count, 7u);
  client->flush_report();
  client->flush_report();
  const std::string metrics = test::metrics_of(daemon_.address());
  const std::size_t at = metrics.find("c10dd_collective_duration_seconds_count{");
  ASSERT_NE(at, std::string::npos) << metrics.substr(0, 400);
  const std::string line = metrics.substr(at, metrics.find('\n', at) - at);
  EXPECT_NE(line.find("all_reduce"), std::string::npos) << line;
  EXPECT_EQ(line.substr(line.find("} ")), "} 7") << line;
}

TEST_F(ClientDaemon, WhatWasRecordedLastIsReportedAtTheEnd) {
  const auto other = connect();  // the metrics of a job end with its last session
  auto client = connect();
  CollectiveSample sample;
  sample.process_group = "dp";
  sample.collective = "broadcast";
  sample.backend = "loopback";
  client->record(sample);
  client->close();
  const std::string metrics = test::metrics_of(daemon_.address());
  const std::size_t at = metrics.find("c10dd_collective_duration_seconds_count{");
  ASSERT_NE(at, std::string::npos) << metrics.substr(0, 400);
  const std::string line = metrics.substr(at, metrics.find('\n', at) - at);
  EXPECT_NE(line.find("broadcast"), std::string::npos) << line;
  EXPECT_EQ(line.substr(line.find("} ")), "} 1") << line;
}

TEST_F(ClientDaemon, PendingCallsEndWhenTheClientIsClosed) {
  auto client = connect();
  const auto store = client->store();
  auto pending = std::async(std::launch::async, [&] { return store->get("never", 300s); });
  EXPECT_EQ(pending.wait_for(50ms), std::future_status::timeout);
  client.reset();
  try {
    pending.get();
    ADD_FAILURE() << "the key does not exist";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::closed) << e.what();
  }
  EXPECT_THROW(store->set("k", "v"), Error);
}

TEST_F(ClientDaemon, WhatTheLauncherHasSaidNeedsNotBeSaidAgain) {
  const auto launched = [&](std::int64_t rank) {
    ClientOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.run = "r1";
    return Client::connect("c10dd://" + daemon_.address() + "/job", options);
  };
  const auto first = launched(0);
  const auto second = launched(1);
  EXPECT_EQ(second->rank(), 1u);
  EXPECT_EQ(second->world_size(), 2u);
  EXPECT_EQ(second->run(), "r1");
  auto other = std::async(std::launch::async, [&] {
    second->barrier("b");
    return second->exchange("e", {"two"});
  });
  first->barrier("b");
  EXPECT_EQ(first->exchange("e", {"one"}), (Parts{"one", "two"}));
  EXPECT_EQ(other.get(), (Parts{"one", "two"}));
  EXPECT_THROW(first->barrier("b", {.rank = 1}), InvalidArgument);
  EXPECT_THROW(connect()->rank(), InvalidArgument);
  EXPECT_THROW(connect()->barrier("b"), InvalidArgument);
}

TEST_F(ClientDaemon, AForkedChildIsToldToConnectAgain) {
  auto client = connect();
  client->store()->set("k", "v");
  const pid_t child = fork();
  if (child == 0) {
    int verdict = 1;
    try {
      client->store()->get("k", 0s);
    } catch (const Forked& e) {
      const bool told = std::string(e.what()).find("after fork") != std::string::npos;
      verdict = told ? 0 : 2;
    }
    client.reset();  // returns, and leaves the parent's session alone
    _exit(verdict);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(client->store()->get("k", 0s), "v");
  EXPECT_EQ(client->stats().connects, 1u);
}

TEST_F(ClientDaemon, ManyThreadsShareOneClient) {
  const auto client = connect();
  std::vector<std::future<void>> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.push_back(std::async(std::launch::async, [&, t] {
      const auto store = client->store();
      const std::string value(static_cast<std::size_t>(t) * 20'000, static_cast<char>('a' + t));
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        store->set(key, value);
        ASSERT_EQ(store->get(key, 0s), value);
      }
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(client->store()->count(""), 400u);
}

#if C10DD_WITH_ROCKSDB

class ClientRestart : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }
  std::shared_ptr<Client> connect(ClientOptions options = {}) {
    return Client::connect("c10dd://" + daemon_.address() + "/job", std::move(options));
  }

  TemporaryDirectory directory_;
  test::DaemonProcess daemon_{"rocksdb:" + directory_.path() + "/state"};
};

TEST_F(ClientRestart, NothingPendingFailsWhenTheDaemonIsKilledAndComesBack) {
  const auto client = connect();
  const auto store = client->store();
  store->add("n", 1);
  auto get = std::async(std::launch::async, [&] { return store->get("late", 60s); });
  auto barrier = std::async(std::launch::async, [&] {
    client->barrier("b", {.rank = 0, .world_size = 2, .timeout = 60s});
  });
  EXPECT_EQ(get.wait_for(100ms), std::future_status::timeout);
  daemon_.stop(SIGKILL);
  auto add = std::async(std::launch::async, [&] { return store->add("n", 1); });
  EXPECT_EQ(add.wait_for(300ms), std::future_status::timeout);
  daemon_.start();
  EXPECT_EQ(add.get(), 2);
  const auto other = connect();
  other->store()->set("late", "here");
  other->barrier("b", {.rank = 1, .world_size = 2, .timeout = 60s});
  EXPECT_EQ(get.get(), "here");
  EXPECT_NO_THROW(barrier.get());
  const ClientStats stats = client->stats();
  EXPECT_EQ(stats.connects, 2u);
  EXPECT_GE(stats.reissued, 2u);  // the add, too, if it was written before the loss was noticed
  EXPECT_LE(stats.reissued, 3u);
  EXPECT_EQ(stats.failures, 0u);
  EXPECT_GE(stats.away, 300ms);
}

TEST_F(ClientRestart, TheProgramIsToldOfEveryChangeOfTheConnection) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ConnectionChange> told;
  ClientOptions options;
  options.on_connection = [&](const ConnectionChange& change) {
    const std::lock_guard lock(mutex);
    told.push_back(change);
    changed.notify_all();
  };
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return told.size() >= count; }));
  };
  const auto client = connect(options);
  wait_for(1);
  daemon_.stop(SIGKILL);
  wait_for(3);  // lost, and still lost after 2 s
  daemon_.start();
  wait_for(4);
  const std::lock_guard lock(mutex);
  EXPECT_TRUE(told[0].connected);
  EXPECT_FALSE(told[1].connected);
  EXPECT_EQ(told[1].daemon, daemon_.address());
  EXPECT_FALSE(told[2].connected);
  EXPECT_GE(told[2].away, 2s);
  EXPECT_NE(told[2].reason.find("connection refused"), std::string::npos) << told[2].reason;
  EXPECT_TRUE(told[3].connected);
  EXPECT_GE(told[3].away, 2s);
}

TEST_F(ClientRestart, ACallSaysThatTheDaemonIsAwayWhenItsTimeIsOver) {
  ClientOptions options;
  options.timeout = 1s;  // of the connect, too
  const auto client = connect(options);
  daemon_.stop(SIGKILL);
  try {
    client->store()->set("k", "v");
    ADD_FAILURE() << "there is no daemon";
  } catch (const TimedOut& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("set timed out after 1 s"), std::string::npos) << text;
    EXPECT_NE(text.find("has not been reachable for"), std::string::npos) << text;
    EXPECT_NE(text.find("connection refused"), std::string::npos) << text;
  }
  daemon_.start();
  ClientOptions patient;
  EXPECT_NO_THROW(connect(patient)->store()->set("k", "v"));
}

TEST_F(ClientRestart, AFrozenDaemonIsNoticedByItsSilence) {
  const auto client = connect();
  const auto store = client->store();
  ASSERT_EQ(kill(daemon_.pid(), SIGSTOP), 0);
  auto set = std::async(std::launch::async, [&] { store->set("k", "v"); });
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (client->stats().away == 0ns && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_GT(client->stats().away, 0ns);
  ASSERT_EQ(kill(daemon_.pid(), SIGCONT), 0);
  EXPECT_NO_THROW(set.get());
  EXPECT_EQ(store->get("k", 0s), "v");
  EXPECT_EQ(client->stats().failures, 0u);
}

#endif  // C10DD_WITH_ROCKSDB

}  // namespace
}  // namespace c10dd
