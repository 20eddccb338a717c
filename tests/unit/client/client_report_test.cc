// SPDX-License-Identifier: Apache-2.0
// What a process counts of its collectives, and what a report of it says.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "client/internal/recorder.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"

namespace c10dd::client {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

CollectiveSample sample(std::chrono::nanoseconds duration) {
  CollectiveSample s;
  s.process_group = "dp";
  s.collective = "all_reduce";
  s.backend = "gloo";
  s.duration = duration;
  s.payload_bytes = 100;
  s.bus_bytes = 150;
  return s;
}

std::uint64_t sum(const std::vector<std::uint64_t>& buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

TEST(Recorder, AddsUpTotals) {
  Recorder recorder;
  recorder.record(sample(microseconds(20)));
  recorder.record(sample(seconds(2)));
  const Report report = recorder.report();
  ASSERT_EQ(report.collectives.size(), 1u);
  const CollectiveTotals& totals = report.collectives[0];
  EXPECT_EQ(totals.process_group, "dp");
  EXPECT_EQ(totals.collective, "all_reduce");
  EXPECT_EQ(totals.backend, "gloo");
  EXPECT_EQ(totals.count, 2u);
  EXPECT_EQ(totals.failures, 0u);
  EXPECT_EQ(totals.payload_bytes, 200u);
  EXPECT_EQ(totals.bus_bytes, 300u);
  EXPECT_EQ(totals.duration_ns, 2'000'020'000u);
  EXPECT_EQ(totals.buckets.size(), metric::kCoarseBuckets);
  EXPECT_EQ(sum(totals.buckets), totals.count);
}

TEST(Recorder, PutsADurationIntoTheBucketWhoseBoundItDoesNotExceed) {
  struct Expected {
    nanoseconds duration;
    std::size_t bucket;
  };
  const Expected cases[] = {{nanoseconds(-5), 0},     {nanoseconds(0), 0}, {microseconds(10), 0},
                            {nanoseconds(10'001), 1}, {seconds(100), 21},  {seconds(101), 22}};
  for (const Expected& expected : cases) {
    Recorder recorder;
    recorder.record(sample(expected.duration));
    const Report report = recorder.report();
    EXPECT_EQ(report.collectives.at(0).buckets.at(expected.bucket), 1u)
        << expected.duration.count() << " ns";
  }
}

TEST(Recorder, CountsShortDurationsByFinerBounds) {
  Recorder recorder;
  for (const auto duration : {nanoseconds(250), nanoseconds(251), nanoseconds(5000),
                              nanoseconds(5001), nanoseconds(10'001)}) {
    recorder.record(sample(duration));
  }
  const CollectiveTotals totals = recorder.report().collectives.at(0);
  EXPECT_EQ(totals.fine_buckets, (std::vector<std::uint64_t>{1, 1, 0, 0, 1}));
  EXPECT_EQ(totals.buckets[0], 4u);
  EXPECT_EQ(totals.buckets[1], 1u);
}

TEST(Recorder, CountsTheTimeInTheQueueApart) {
  Recorder recorder;
  CollectiveSample waited = sample(microseconds(1));
  waited.queued = seconds(2);
  recorder.record(waited);
  recorder.record(sample(microseconds(1)));
  const CollectiveTotals totals = recorder.report().collectives.at(0);
  EXPECT_EQ(totals.duration_ns, 2000u);
  EXPECT_EQ(totals.queue_ns, 2'000'000'000u);
  ASSERT_EQ(totals.queue_buckets.size(), metric::kCollectiveBuckets);
  EXPECT_EQ(totals.queue_buckets[0], 1u);
  EXPECT_EQ(sum(totals.queue_buckets), 2u);
}

TEST(Recorder, ReportsWhatIsInFlightUntilItHasEnded) {
  Recorder recorder;
  const auto series = recorder.series("dp", "barrier", "gloo");
  EXPECT_FALSE(recorder.changed());
  series->add_in_flight(1);
  EXPECT_TRUE(recorder.changed());
  EXPECT_EQ(recorder.report().collectives.at(0).in_flight, 1u);
  EXPECT_FALSE(recorder.changed());
  series->add_in_flight(-1);
  EXPECT_TRUE(recorder.changed()) << "although nothing was counted";
}

TEST(Recorder, CountsFailuresApart) {
  Recorder recorder;
  CollectiveSample failed = sample(seconds(1));
  failed.succeeded = false;
  recorder.record(failed);
  const Report report = recorder.report();
  const CollectiveTotals& totals = report.collectives.at(0);
  EXPECT_EQ(totals.count, 0u);
  EXPECT_EQ(totals.failures, 1u);
  EXPECT_EQ(totals.payload_bytes, 0u);
  EXPECT_EQ(sum(totals.buckets), 0u) << "the daemon demands that buckets add up to the count";
}

TEST(Recorder, KeepsKindsApart) {
  Recorder recorder;
  CollectiveSample other = sample(microseconds(5));
  recorder.record(other);
  other.process_group = "tp";
  recorder.record(other);
  recorder.record(other);
  other.backend = "loopback";
  recorder.record(other);
  const std::vector<CollectiveCount> counts = recorder.counts();
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts[0].process_group, "dp");
  EXPECT_EQ(counts[0].count, 1u);
  EXPECT_EQ(counts[1].count, 2u);
  EXPECT_EQ(counts[1].payload_bytes, 200u);
  EXPECT_EQ(counts[2].backend, "loopback");
}

TEST(Recorder, ReportsAreCumulativeWithAscendingNumbers) {
  Recorder recorder;
  EXPECT_FALSE(recorder.changed());
  recorder.record(sample(microseconds(5)));
  EXPECT_TRUE(recorder.changed());
  const Report first = recorder.report();
  EXPECT_FALSE(recorder.changed());
  recorder.record(sample(microseconds(5)));
  const Report second = recorder.report();
  EXPECT_GT(first.number, 0u);
  EXPECT_GT(second.number, first.number);
  EXPECT_EQ(second.collectives.at(0).count, 2u);
}

TEST(Recorder, CountsTheRestTogetherWhenThereAreTooManyKinds) {
  Recorder recorder;
  for (std::size_t i = 0; i < 2 * limits::kSeriesPerReport; ++i) {
    const std::string group = "group" + std::to_string(i);
    CollectiveSample s = sample(microseconds(5));
    s.process_group = group;
    recorder.record(s);
  }
  const Report report = recorder.report();
  EXPECT_EQ(report.collectives.size(), limits::kSeriesPerReport);
  std::uint64_t total = 0;
  std::uint64_t other = 0;
  for (const CollectiveTotals& totals : report.collectives) {
    total += totals.count;
    if (totals.process_group == "other") other += totals.count;
  }
  EXPECT_EQ(total, 2 * limits::kSeriesPerReport);
  EXPECT_EQ(other, limits::kSeriesPerReport + 1);
}

TEST(Recorder, LosesNothingOfManyThreads) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kSamples = 5000;
  Recorder recorder;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kSamples; ++i) recorder.record(sample(microseconds(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Report report = recorder.report();
  EXPECT_EQ(report.collectives.at(0).count, kThreads * kSamples);
  EXPECT_EQ(sum(report.collectives.at(0).buckets), kThreads * kSamples);
}

}  // namespace
}  // namespace c10dd::client
