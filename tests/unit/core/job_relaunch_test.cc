// SPDX-License-Identifier: Apache-2.0
// A job of many ranks starts again. Scripts do not measure how long this takes if every rank waits
// for its predecessor, and all predecessors are lost one after the other.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "daemon/core/job/job.h"
#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t kRanks = 8'192;

class Launches {
 public:
  void hello(std::uint64_t launch, Rank rank) {
    Hello hello;
    hello.session = {launch, rank + 1};
    hello.host = "h" + std::to_string(rank / 8);
    apply(launch, rank, 0, hello);
  }
  void barrier(std::uint64_t launch, Rank rank, std::uint64_t sequence) {
    apply(launch, rank, sequence + 1,
          Barrier{"start", 0, sequence, rank, kRanks, std::chrono::hours(1), "", {}});
  }
  void disconnect(std::uint64_t launch, Rank rank) {
    take(job_.disconnect({launch, rank + 1}, now_));
  }
  void pass(Duration time) {
    const TimePoint end = now_ + time;
    while (job_.next_deadline() && *job_.next_deadline() <= end) {
      now_ = std::max(now_, *job_.next_deadline());
      take(job_.tick(now_));
    }
    now_ = end;
  }

  std::size_t released = 0;
  std::size_t failed = 0;

 private:
  void apply(std::uint64_t launch, Rank rank, std::uint64_t sequence, const Request& request) {
    const SessionId id{launch, rank + 1};
    take(job_.apply({id, launch << 32 | rank}, {sequence, 0, sequence, 0}, request, now_));
  }
  void take(Effects effects) {
    for (const OutgoingReply& reply : effects.replies) {
      if (reply.op != Barrier::op.code) continue;
      ++(reply.result ? released : failed);
    }
  }

  TimePoint now_{};
  Job job_{1, {1, 1, 0}, {}};
};

TEST(JobRelaunch, TheAnswerToAHelloComesBeforeThoseThatItReleases) {
  Job job{1, {1, 1, 0}, {}};
  TimePoint now{};
  const auto apply = [&](std::uint64_t launch, std::uint64_t sequence, const Request& request) {
    return job.apply({{launch, 1}, launch}, {sequence, 0, sequence, 0}, request, now);
  };
  const auto hello = [&](std::uint64_t launch) {
    Hello greeting;
    greeting.session = {launch, 1};
    return apply(launch, 0, greeting);
  };
  const Barrier barrier{"start", 0, 0, 0, 2, std::chrono::hours(1), "", {}};
  hello(1);
  apply(1, 1, barrier);
  job.disconnect({1, 1}, now);
  now += milliseconds(100);
  hello(2);
  ASSERT_TRUE(apply(2, 1, barrier).replies.empty()) << "it waits whether rank 0 comes back";
  const Effects back = hello(1);
  ASSERT_EQ(back.replies.size(), 2u);
  EXPECT_EQ(back.replies[0].op, Hello::op.code);
  EXPECT_EQ(back.replies[0].to, (SessionId{1, 1}));
  EXPECT_EQ(back.replies[1].op, Barrier::op.code);
  EXPECT_EQ(back.replies[1].result.error().code, Code::rank_taken);
}

TEST(JobRelaunch, OfThousandsOfRanksTakesNoQuadraticTime) {
  Launches job;
  for (Rank rank = 0; rank < kRanks; ++rank) job.hello(1, rank);
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    for (Rank rank = 0; rank < kRanks; ++rank) job.barrier(1, rank, sequence);
  }
  ASSERT_EQ(job.released, 20u * kRanks);
  job.released = 0;
  const std::clock_t begin = std::clock();
  for (Rank rank = 0; rank < kRanks; ++rank) {  // they die within 0.8 s
    job.disconnect(1, rank);
    job.pass(microseconds(100));
  }
  for (Rank rank = 0; rank < kRanks; ++rank) {  // and come back within another 0.8 s
    job.hello(2, rank);
    job.barrier(2, rank, 0);
    job.pass(microseconds(100));
  }
  EXPECT_EQ(job.released, 0u);
  job.pass(milliseconds(1'300));
  EXPECT_EQ(job.released, kRanks) << "2 s after the last was lost";
  EXPECT_EQ(job.failed, 0u);
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(spent, 3.0 * test::kSlowdown);
}

}  // namespace
}  // namespace c10dd::core
