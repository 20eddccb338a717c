// SPDX-License-Identifier: Apache-2.0
// Calls that wait are woken at once by the call of another client: a stall of 0.5 s fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/integration/canary.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 100;
constexpr std::array<const char*, 6> kSteps = {"get",   "queue_pop", "wait",
                                               "watch", "barrier",   "exchange"};
using Longest = std::array<std::chrono::nanoseconds, kSteps.size()>;

/// One of two clients that wake each other: each step is a call that waits for the other client.
class Runner {
 public:
  Runner(const std::string& url, std::uint32_t rank)
      : client_(Client::connect(url)), store_(client_->store()), rank_(rank) {}

  /// Returns the longest time of each step.
  Longest run() {
    Longest longest{};
    KeyWatch watch = store_->watch(theirs("watched"));
    std::uint64_t step = 0;
    meet("begin", 0);
    for (int round = 0; round < kRounds; ++round) {
      const auto timed = [&](auto call) {
        const auto begin = Clock::now();
        call();
        auto& slot = longest[step++ % kSteps.size()];
        slot = std::max<std::chrono::nanoseconds>(slot, Clock::now() - begin);
      };
      const std::string key = "-" + std::to_string(round);
      timed([&] {
        store_->set(mine("get" + key), "v");
        store_->get(theirs("get" + key), 20s);
      });
      timed([&] {
        store_->queue_push(mine("queue"), "v");
        store_->queue_pop(theirs("queue"), 20s);
      });
      timed([&] {
        store_->add(mine("wait" + key), 1);
        store_->wait({theirs("wait" + key)}, 20s);
      });
      timed([&] {
        store_->append(mine("watched"), "v");
        EXPECT_EQ(watch.next(20s).changes.size(), 1u);
      });
      timed([&] { meet("barrier", round); });
      timed([&] {
        const ExchangeOptions options{.rank = rank_, .world_size = 2, .timeout = 20s};
        client_->exchange("exchange" + key, {"part"}, options);
      });
    }
    return longest;
  }

 private:
  std::string mine(const std::string& key) const { return key + "/" + std::to_string(rank_); }
  std::string theirs(const std::string& key) const { return key + "/" + std::to_string(1 - rank_); }
  void meet(const std::string& name, int round) {
    client_->barrier(name + std::to_string(round),
                     {.rank = rank_, .world_size = 2, .timeout = 20s});
  }

  std::shared_ptr<Client> client_;
  std::shared_ptr<JobStore> store_;
  std::uint32_t rank_;
};

/// Runs `jobs` pairs of clients at the same time and returns the longest time of each step.
Longest longest_steps(const std::string& address, int jobs) {
  std::vector<Longest> found(2 * static_cast<std::size_t>(jobs));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string url = "c10dd://" + address + "/job" + std::to_string(i / 2);
      found[i] = Runner(url, static_cast<std::uint32_t>(i % 2)).run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Longest longest{};
  for (const Longest& one : found) {
    for (std::size_t step = 0; step < longest.size(); ++step) {
      longest[step] = std::max(longest[step], one[step]);
    }
  }
  return longest;
}

/// Runs four pairs of clients and expects that no step of them stalls. `synced`: a new file on the
/// disk of the engine.
void expect_no_stall(const std::string& engine, const std::string& synced = {}) {
  test::DaemonProcess daemon(engine);
  daemon.start();
  const test::Canary canary(synced);
  const Longest longest = longest_steps(daemon.address(), 4);
  const auto limit = 500ms + canary.longest_gap();
  for (std::size_t step = 0; step < longest.size(); ++step) {
    EXPECT_LT(longest[step], limit) << kSteps[step];
  }
}

TEST(WakeUpsTest, NoStepStallsOnTheMemoryEngine) { expect_no_stall("memory:"); }

TEST(WakeUpsTest, NoStepStallsOnRocksDb) {
  if (!C10DD_WITH_ROCKSDB) GTEST_SKIP() << "built without RocksDB";
  const TemporaryDirectory home;
  expect_no_stall("rocksdb:" + home.path() + "/state", home.path() + "/synced");
}

}  // namespace
}  // namespace c10dd
