// SPDX-License-Identifier: Apache-2.0
// SIGKILL under load, with the real daemon on RocksDB and real clients: no acknowledged write is
// lost, no retried add counts twice, no pending wait or barrier fails.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "client/client.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;

constexpr int kWriters = 4;
constexpr int kKills = 6;

/// Writes until told to stop; returns how many rounds were acknowledged.
int write(Client& client, int writer, const std::atomic<bool>& stop) {
  const auto store = client.store();
  int round = 0;
  for (; !stop; ++round) {
    store->set("w/" + std::to_string(writer) + "/" + std::to_string(round), std::to_string(round));
    store->add("sum", 1);
  }
  return round;
}

TEST(Kill, LosesNoAcknowledgedWriteAndFailsNoPendingCall) {
  const TemporaryDirectory directory;
  test::DaemonProcess daemon("rocksdb:" + directory.path() + "/state");
  daemon.start();
  const std::string url = "c10dd://" + daemon.address() + "/kill";
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < kWriters + 2; ++i) clients.push_back(Client::connect(url));

  std::atomic<bool> stop = false;
  std::vector<std::future<int>> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(
        std::async(std::launch::async, [&, i] { return write(*clients[i], i, stop); }));
  }
  Client& patient = *clients[kWriters];
  auto waiting = std::async(std::launch::async, [&] { patient.store()->wait({"gate"}, 120s); });
  auto barrier = std::async(std::launch::async, [&] {
    patient.barrier("end", {.rank = 0, .world_size = 2, .timeout = 120s});
  });

  std::mt19937_64 random(7);
  for (int kill = 0; kill < kKills; ++kill) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 250));
    daemon.stop(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
    daemon.start();
  }
  std::this_thread::sleep_for(100ms);
  stop = true;
  int total = 0;
  std::vector<int> rounds;
  for (auto& writer : writers) rounds.push_back(writer.get());
  for (const int n : rounds) total += n;

  Client& last = *clients[kWriters + 1];
  last.store()->set("gate", "open");
  last.barrier("end", {.rank = 1, .world_size = 2, .timeout = 60s});
  EXPECT_NO_THROW(waiting.get());
  EXPECT_NO_THROW(barrier.get());

  EXPECT_GT(total, kKills);
  EXPECT_EQ(std::to_string(total), last.store()->get("sum"));
  for (int writer = 0; writer < kWriters; ++writer) {
    const std::string prefix = "w/" + std::to_string(writer) + "/";
    EXPECT_EQ(static_cast<std::uint64_t>(rounds[writer]), last.store()->count(prefix));
    for (int round = 0; round < rounds[writer]; ++round) {
      const std::string name = prefix + std::to_string(round);
      ASSERT_EQ(std::to_string(round), last.store()->get(name, 0s)) << name;
    }
  }
  std::uint64_t reissued = 0;
  for (const auto& client : clients) {
    reissued += client->stats().reissued;
    EXPECT_EQ(0u, client->stats().failures);
  }
  EXPECT_GT(reissued, 0u);
  RecordProperty("acknowledged", total);
  RecordProperty("reissued", static_cast<int>(reissued));
}

TEST(Kill, TimedOutBarrierNamesTheMissingRanksAndTheirHosts) {
  test::DaemonProcess daemon("memory:");
  daemon.start();
  const std::string url = "c10dd://" + daemon.address() + "/missing";
  ClientOptions options;
  options.host = "node-a";
  options.rank = 0;
  const auto first = Client::connect(url, options);
  options.host = "node-b";
  options.rank = 2;
  const auto third = Client::connect(url, options);
  try {
    first->barrier("start", {.rank = 0, .world_size = 4, .timeout = 200ms});
    FAIL() << "nobody else arrived";
  } catch (const TimedOut& e) {
    EXPECT_NE(std::string::npos, std::string(e.what()).find("3 of 4 ranks missing: [1-3]"))
        << e.what();
    ASSERT_EQ(3u, e.missing().size());
    EXPECT_EQ("never_connected", e.missing()[0].cause);
    EXPECT_EQ(2u, e.missing()[1].rank);
    EXPECT_EQ("node-b", e.missing()[1].host);
    EXPECT_EQ("not_arrived", e.missing()[1].cause);
  }
}

}  // namespace
}  // namespace c10dd
