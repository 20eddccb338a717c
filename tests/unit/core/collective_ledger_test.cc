// SPDX-License-Identifier: Apache-2.0
// Totals in, differences out: nothing lost with a report, nothing counted twice.
#include "daemon/core/reports/collective_ledger.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "protocol/metric_catalog.h"
#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

CollectiveTotals totals(std::uint64_t count, const std::string& name = "all_reduce") {
  CollectiveTotals t{"dp", name, "gloo", count, 0, count * 100, count * 150, count * 7,
                     {},   {},   0,      {},    0};
  t.buckets.resize(metric::kCoarseBuckets);
  t.buckets[4] = count;
  return t;
}

Report report(std::uint64_t number, std::vector<CollectiveTotals> series) {
  return {number, std::move(series)};
}

TEST(CollectiveLedger, GivesTheDifferenceToTheNewestReport) {
  CollectiveLedger ledger;
  ASSERT_EQ(ledger.add(kFirst, report(1, {totals(10)})).value().size(), 1u);
  const auto difference = ledger.add(kFirst, report(5, {totals(25)})).value();
  ASSERT_EQ(difference.size(), 1u);
  EXPECT_EQ(difference[0].count, 15u);
  EXPECT_EQ(difference[0].payload_bytes, 1500u);
  EXPECT_EQ(difference[0].bus_bytes, 2250u);
  EXPECT_EQ(difference[0].duration_ns, 105u);
  EXPECT_EQ(difference[0].buckets[4], 15u);
  EXPECT_EQ(difference[0].collective, "all_reduce");
}

TEST(CollectiveLedger, CountsARepeatedOrLateReportOnce) {
  CollectiveLedger ledger;
  ASSERT_TRUE(ledger.add(kFirst, report(2, {totals(10)})));
  EXPECT_TRUE(ledger.add(kFirst, report(2, {totals(10)})).value().empty());
  EXPECT_TRUE(ledger.add(kFirst, report(1, {totals(5)})).value().empty());
  EXPECT_TRUE(ledger.add(kFirst, report(3, {totals(10)})).value().empty());
  EXPECT_EQ(ledger.add(kFirst, report(4, {totals(11)})).value()[0].count, 1u);
}

TEST(CollectiveLedger, KeepsSessionsAndSeriesApart) {
  CollectiveLedger ledger;
  ASSERT_TRUE(ledger.add(kFirst, report(1, {totals(10)})));
  EXPECT_EQ(ledger.add(kSecond, report(1, {totals(3)})).value()[0].count, 3u);
  const auto both = ledger.add(kFirst, report(2, {totals(11), totals(4, "broadcast")})).value();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].count, 1u);
  EXPECT_EQ(both[1].count, 4u);
  EXPECT_TRUE(ledger.add(kFirst, report(3, {})).value().empty());
  EXPECT_EQ(ledger.add(kFirst, report(4, {totals(12)})).value()[0].count, 1u);
}

TEST(CollectiveLedger, ReportsFailuresWithoutCompletions) {
  CollectiveLedger ledger;
  CollectiveTotals failed = totals(0);
  failed.failures = 2;
  EXPECT_EQ(ledger.add(kFirst, report(1, {failed})).value()[0].failures, 2u);
}

TEST(CollectiveLedger, TakesAReportAsAWholeOrNotAtAll) {
  CollectiveLedger ledger;
  ASSERT_TRUE(ledger.add(kFirst, report(1, {totals(10)})));
  CollectiveTotals no_sum = totals(20);
  no_sum.buckets[4] = 19;
  CollectiveTotals few_buckets = totals(20);
  few_buckets.buckets.pop_back();
  CollectiveTotals wraps = totals(20);
  wraps.buckets[0] = wraps.buckets[1] = std::uint64_t{1} << 63;
  CollectiveTotals shrinks = totals(20);
  shrinks.payload_bytes = 1;
  CollectiveTotals too_fine = totals(20);
  too_fine.fine_buckets.resize(metric::kFineBounds.size());
  too_fine.fine_buckets[0] = 1;  // but buckets[0] is 0
  CollectiveTotals few_fine = totals(20);
  few_fine.fine_buckets.resize(metric::kFineBounds.size() - 1);
  CollectiveTotals unqueued = totals(20);
  unqueued.queue_buckets.resize(metric::kCollectiveBuckets);
  CollectiveTotals too_many = totals(20);
  too_many.in_flight = std::uint64_t{1} << 60;
  for (const CollectiveTotals& bad :
       {no_sum, few_buckets, wraps, shrinks, totals(9), too_fine, few_fine, unqueued, too_many}) {
    const auto refused = ledger.add(kFirst, report(2, {totals(1, "broadcast"), bad}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
  }
  const auto good = ledger.add(kFirst, report(2, {totals(1, "broadcast"), totals(20)})).value();
  ASSERT_EQ(good.size(), 2u);
  EXPECT_EQ(good[0].count, 1u);
  EXPECT_EQ(good[1].count, 10u);
}

TEST(CollectiveLedger, GivesDifferencesOfTheTimeInTheQueue) {
  CollectiveLedger ledger;
  CollectiveTotals one = totals(10);
  one.queue_ns = 70;
  one.queue_buckets.assign(metric::kCollectiveBuckets, 0);
  one.queue_buckets[3] = 10;
  ASSERT_TRUE(ledger.add(kFirst, report(1, {one})));
  CollectiveTotals two = totals(12);
  two.queue_ns = 90;
  two.queue_buckets = one.queue_buckets;
  two.queue_buckets[4] = 2;
  const CollectiveTotals d = ledger.add(kFirst, report(2, {two})).value().at(0);
  EXPECT_EQ(d.queue_ns, 20u);
  EXPECT_EQ(d.queue_buckets[3], 0u);
  EXPECT_EQ(d.queue_buckets[4], 2u);
  EXPECT_FALSE(ledger.add(kFirst, report(3, {totals(12)}))) << "the totals of the queue shrink";
}

TEST(CollectiveLedger, SumsWhatIsInFlightOverConnectedSessions) {
  CollectiveLedger ledger;
  CollectiveTotals one = totals(1);
  one.in_flight = 3;
  CollectiveTotals other = totals(0, "barrier");
  other.in_flight = 1;
  EXPECT_EQ(ledger.add(kFirst, report(1, {one, other})).value().size(), 1u);
  one.in_flight = 5;
  ASSERT_TRUE(ledger.add(kSecond, report(1, {one})));
  EXPECT_EQ(ledger.in_flight(), 9u);
  ledger.disconnect(kSecond);
  ledger.disconnect(kSecond);
  EXPECT_EQ(ledger.in_flight(), 4u);
  ASSERT_TRUE(ledger.add(kSecond, report(2, {one})));
  EXPECT_EQ(ledger.in_flight(), 9u) << "a session reports again after it has reconnected";
  one.in_flight = 0;
  ASSERT_TRUE(ledger.add(kFirst, report(2, {one, other})));
  EXPECT_EQ(ledger.in_flight(), 6u);
  ledger.forget(kFirst);
  ledger.forget(kSecond);
  EXPECT_EQ(ledger.in_flight(), 0u);
}

TEST(CollectiveLedger, TakesASeriesNamedTwiceInOrder) {
  CollectiveLedger ledger;
  EXPECT_FALSE(ledger.add(kFirst, report(1, {totals(5), totals(3)})));
  const auto twice = ledger.add(kFirst, report(1, {totals(5), totals(8)})).value();
  EXPECT_EQ(twice[0].count + twice[1].count, 8u);
}

TEST(CollectiveLedger, BoundsTheSeriesOfASession) {
  CollectiveLedger ledger;
  std::vector<CollectiveTotals> series;
  for (std::size_t i = 0; i < limits::kSeriesPerReport; ++i) {
    series.push_back(totals(1, "c" + std::to_string(i)));
  }
  ASSERT_TRUE(ledger.add(kFirst, report(1, series)));
  EXPECT_EQ(ledger.add(kFirst, report(2, {totals(1, "new")})).error().code, Code::quota_exceeded);
  EXPECT_EQ(ledger.add(kFirst, report(2, {totals(2, "c0")})).value()[0].count, 1u);
  series.push_back(totals(1, "more"));
  EXPECT_EQ(ledger.add(kSecond, report(1, series)).error().code, Code::too_large);
}

TEST(CollectiveLedger, BoundsAndCleansTheLabels) {
  CollectiveLedger ledger;
  std::set<std::string> kinds;
  std::set<std::string> names;
  std::set<std::string> backends;
  for (std::uint64_t i = 0; i < 100; ++i) {
    CollectiveTotals t = totals(1, "name\xFF" + std::to_string(i));
    t.process_group = "kind" + std::to_string(i);
    t.backend = "backend" + std::to_string(i);
    const CollectiveTotals d = ledger.add({0, i}, report(1, {t})).value().at(0);
    kinds.insert(d.process_group);
    names.insert(d.collective);
    backends.insert(d.backend);
  }
  EXPECT_EQ(kinds.size(), limits::kProcessGroupKinds + 1);
  EXPECT_EQ(names.size(), limits::kCollectiveNames + 1);
  EXPECT_EQ(backends.size(), limits::kBackendNames + 1);
  EXPECT_TRUE(kinds.contains("kind0") && kinds.contains("other"));
  EXPECT_TRUE(names.contains("name?0"));
}

TEST(CollectiveLedger, StartsAnewForASessionThatWasForgotten) {
  CollectiveLedger ledger;
  ASSERT_TRUE(ledger.add(kFirst, report(9, {totals(10)})));
  ledger.forget(kFirst);
  EXPECT_EQ(ledger.add(kFirst, report(1, {totals(4)})).value()[0].count, 4u);
}

}  // namespace
}  // namespace c10dd::core
