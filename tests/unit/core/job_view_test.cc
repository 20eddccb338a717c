// SPDX-License-Identifier: Apache-2.0
// What a status page shows of the blocked requests of a job.
#include "daemon/core/reports/job_view.h"

#include <gtest/gtest.h>

#include "daemon/core/job/job.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class JobViewTest : public testing::Test {
 protected:
  /// Opens session `n`, of process n on host-n.
  void open(std::uint64_t n, bool fleeting = true) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {1, n};
    hello.host = "host-" + std::to_string(n);
    hello.pid = known_ ? n : 0;
    hello.fleeting = fleeting;
    hello.c10d = fleeting;
    ask(n, hello);
  }
  void ask(std::uint64_t n, const Request& request) {
    const Origin from{.session = {1, n}, .connection = n};
    job_.apply(from, {.sequence = ++sequence_, .acked_below = 0}, request, now_);
  }
  void wait(std::uint64_t n, const std::vector<Bytes>& keys) {
    ask(n, Wait{.keys = keys, .timeout = 600s, .each = true});
  }
  JobView view() const { return job_.view(now_); }

  Job job_{7, {}};
  bool known_ = true;  // the pids of the processes that come
  TimePoint now_{1h};
  std::uint64_t sequence_ = 0;
};

TEST_F(JobViewTest, NameTheKeysThatAreAwaitedAndWhoWaits) {
  for (std::uint64_t n = 1; n <= 3; ++n) open(n);
  ask(1, Set{.key = "/pg//0/0", .value = Bytes(154 + 8 * 4, 'v')});
  wait(1, {"/pg//0/0", "/pg//0/3"});
  now_ += 2s;
  wait(2, {"/pg//0/3"});
  const JobView found = view();
  ASSERT_EQ(found.waits.size(), 1U);
  const KeyWait& wait = found.waits.front();
  EXPECT_EQ(wait.key, "/pg//0/3");
  EXPECT_EQ(wait.rank, 3U);
  EXPECT_EQ(wait.waiters, 2U);
  EXPECT_EQ(wait.longest, 2s);
  EXPECT_EQ(wait.processes, (std::vector<WaitingProcess>{{"host-1", 1, 0}, {"host-2", 2, 0}}));
  EXPECT_EQ(found.ranks, std::set<std::uint32_t>{0});
  EXPECT_EQ(found.world_size, 4U);
}

TEST_F(JobViewTest, ShowWhichNumberIsAwaited) {
  open(1);
  ask(1, Add{.key = "/barrier", .delta = 1, .lenient = true});
  ask(1, WaitCounter{.key = "/barrier", .at_least = 8, .timeout = 600s});
  const JobView found = view();
  ASSERT_EQ(found.waits.size(), 1U);
  EXPECT_EQ(found.waits.front().key, "/barrier");
  EXPECT_EQ(found.waits.front().at_least, 8);
  EXPECT_EQ(found.waits.front().rank, std::nullopt);
  EXPECT_EQ(found.world_size, 8U);
}

TEST_F(JobViewTest, KnowTheWorldSizeAfterABarrierToo) {
  open(1);
  open(2);
  ask(1, Add{.key = "/barrier", .delta = 2, .lenient = true});
  ask(1, WaitCounter{.key = "/barrier", .at_least = 2, .timeout = 600s});
  ask(2, WaitCounter{.key = "/huge", .at_least = 1'000'000, .timeout = 600s});
  EXPECT_EQ(view().world_size, 2U);
  ask(1, Set{.key = "/pg//0/0", .value = Bytes(154 + 8 * 4, 'v')});
  EXPECT_EQ(view().world_size, 4U);
  ask(1, Set{.key = "/none/torchelastic/assigned_ranks/0", .value = "[0, 3, 0, 3]"});
  EXPECT_EQ(view().world_size, 3U);
}

TEST_F(JobViewTest, TakeNoNumberOfANativeClientForTheWorldSize) {
  open(1, false);
  ask(1, WaitCounter{.key = "steps", .at_least = 1'000, .timeout = 600s});
  EXPECT_EQ(view().waits.size(), 1U);
  EXPECT_EQ(view().world_size, std::nullopt);
}

TEST_F(JobViewTest, TellProcessesOfUnknownPidApartByTheirConnections) {
  known_ = false;
  open(1);
  open(2);
  for (std::uint64_t n = 1; n <= 2; ++n) wait(n, {"/a"});
  const JobView found = view();
  ASSERT_EQ(found.waits.size(), 1U);
  EXPECT_EQ(found.waits.front().processes,
            (std::vector<WaitingProcess>{{"host-1", 0, 1}, {"host-2", 0, 2}}));
}

TEST_F(JobViewTest, KeepTheKeysWithMostWaiters) {
  open(1);
  open(2);
  std::vector<Bytes> keys;
  for (int i = 1000; i < 1150; ++i) keys.push_back("/key" + std::to_string(i));
  wait(1, keys);
  wait(2, {keys.back()});
  const JobView found = view();
  EXPECT_EQ(found.waits.size(), JobView::kWaits);
  EXPECT_EQ(found.more_waits, 50U);
  EXPECT_EQ(found.waits.back().key, keys.back());
  EXPECT_EQ(found.waits.back().waiters, 2U);
}

TEST_F(JobViewTest, ShowNothingOfAJobInWhichNobodyWaits) {
  open(1);
  ask(1, Set{.key = "/a", .value = "v"});
  wait(1, {"/a"});
  const JobView found = view();
  EXPECT_TRUE(found.waits.empty());
  EXPECT_TRUE(found.ranks.empty());
  EXPECT_EQ(found.world_size, std::nullopt);
}

TEST_F(JobViewTest, NameTheBarriersAndWhoIsMissing) {
  open(1);
  open(2);
  const auto arrive = [&](std::uint64_t n, const char* name, std::uint32_t size) {
    Barrier barrier;
    barrier.name = name;
    barrier.rank = static_cast<Rank>(n - 1);
    barrier.world_size = size;
    barrier.timeout = 600s;
    ask(n, barrier);
  };
  arrive(1, "start", 3);
  now_ += 2s;
  arrive(2, "start", 3);
  arrive(1, "alone", 1);  // complete
  const JobView found = view();
  ASSERT_EQ(found.barriers.size(), 1U);
  const UnfinishedBarrier& unfinished = found.barriers.front();
  EXPECT_EQ(unfinished.name, "barrier \"start\" (generation 0, sequence 0)");
  EXPECT_EQ(unfinished.world_size, 3U);
  EXPECT_EQ(unfinished.waiting, 2s);
  EXPECT_EQ(unfinished.ranks, std::vector<std::uint32_t>{2});
  EXPECT_EQ(unfinished.missing, "1 of 3 ranks missing: [2]; rank 2 never connected");
}

}  // namespace
}  // namespace c10dd::core
