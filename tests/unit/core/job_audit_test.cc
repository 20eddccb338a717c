// SPDX-License-Identifier: Apache-2.0
// Job::audit() finds each sum that is not kept. Built with the planted faults, one test for each.
#include <gtest/gtest.h>

#include "daemon/core/job/job.h"
#include "protocol/metric_catalog.h"
#include "tests/unit/core/active_plant.h"

namespace c10dd::core {
namespace {

class JobAudit : public testing::Test {
 protected:
  JobAudit() {
    active_plant.reset();
    for (std::uint64_t n = 1; n <= 3; ++n) hello(n);
  }
  ~JobAudit() override { active_plant.reset(); }

  void hello(std::uint64_t session) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {1, session};
    ask(session, hello);
  }
  void ask(std::uint64_t session, const Request& request) {
    const Origin from{.session = {1, session}, .connection = session};
    ++sequence_;
    job_.apply(from, {.sequence = sequence_, .acked_below = sequence_}, request, now_);
  }
  void pass(Duration time) {
    const TimePoint end = now_ + time;
    while (job_.next_deadline().value_or(end) < end) {
      now_ = std::max(now_, *job_.next_deadline());
      job_.tick(now_);
    }
    now_ = end;
    job_.tick(now_);
  }
  static Exchange exchange(Rank rank, std::uint32_t size) {
    Exchange e;
    e.name = "x";
    e.rank = rank;
    e.world_size = size;
    e.parts = {"part"};
    e.timeout = std::chrono::seconds(600);
    return e;
  }

  /// Expects that the audit finds nothing before the fault is planted, and finds `text` after the
  /// steps.
  template <class Steps>
  void finds(Planted fault, const std::string& text, Steps steps) {
    EXPECT_EQ(job_.audit(), std::nullopt);
    active_plant = fault;
    steps();
    const AuditResult found = job_.audit();
    ASSERT_TRUE(found);
    EXPECT_NE(found->find(text), std::string::npos) << *found;
  }

  Quotas quotas_ = [] {
    Quotas quotas;
    quotas.history_changes = 2;
    return quotas;
  }();
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t sequence_ = 0;
  Job job_{1, {7, 1, 0}, quotas_};
};

TEST_F(JobAudit, FindsBytesOfAnArrivalThatWasWithdrawn) {
  ask(1, exchange(0, 2));
  finds(Planted::arrival_bytes_kept, "bytes of arrivals", [&] { ask(1, Goodbye{}); });
}

TEST_F(JobAudit, FindsBytesOfAnOutcomeThatWasDropped) {
  ask(1, exchange(0, 2));
  ask(2, exchange(1, 2));
  finds(Planted::outcome_bytes_kept, "bytes of outcomes", [&] {
    ask(1, Goodbye{});
    ask(2, Goodbye{});
  });
}

TEST_F(JobAudit, FindsBytesOfAChangeThatIsTooOld) {
  finds(Planted::change_bytes_kept, "bytes of changes", [&] {
    for (int n = 0; n < 3; ++n) ask(1, Set{"key", "value"});
  });
}

TEST_F(JobAudit, FindsTheWeightOfARequestThatWasAnswered) {
  ask(1, Get{"key", std::chrono::seconds(60)});
  finds(Planted::weight_kept, "weight of blocked requests", [&] { ask(2, Set{"key", "value"}); });
}

TEST_F(JobAudit, FindsAnAbsentSessionThatHasEnded) {
  ask(1, exchange(0, 3));
  job_.disconnect({1, 1}, now_);
  ask(2, exchange(0, 3));  // waits for session 1
  finds(Planted::absence_kept, "absent ones", [&] {
    hello(1);
    for (std::uint64_t n = 1; n <= 3; ++n) ask(n, Goodbye{});
  });
}

TEST_F(JobAudit, FindsTotalsOfASessionThatHasEnded) {
  CollectiveTotals totals;
  totals.buckets.assign(metric::kCoarseBuckets, 0);
  Report report;
  report.number = 1;
  report.collectives = {totals};
  ask(1, report);
  finds(Planted::totals_kept, "totals of collectives", [&] {
    for (std::uint64_t n = 1; n <= 3; ++n) ask(n, Goodbye{});
  });
}

TEST_F(JobAudit, FindsAProcessGroupThatASessionHasClosed) {
  for (const Rank rank : {0, 1}) {
    Activity activity;
    activity.opened = {{5, "dp", "dp", 1, 2, rank, rank}};
    ask(rank + 1, activity);
  }
  finds(Planted::closed_counts, "open ranks of a process group", [&] {
    Activity closes;
    closes.closed = {5};
    ask(1, closes);
  });
}

TEST_F(JobAudit, FindsAnItemThatIsKeptForASessionThatHasEnded) {
  Hello hello;
  hello.session = {1, 4};
  hello.fleeting = true;
  hello.c10d = true;
  ask(4, hello);
  ask(1, QueuePush{"q", "item"});
  ask(4, Wait{{"q"}, Duration(0)});
  finds(Planted::reservation_kept, "items that are kept for a session", [&] {
    job_.disconnect({1, 4}, now_);
  });
}

TEST_F(JobAudit, FindsNothingWhenAllIsLeftInOrder) {
  ask(1, exchange(0, 3));
  ask(2, WaitCounter{"missing", 3, std::chrono::seconds(60)});
  ask(2, Get{"missing", std::chrono::seconds(60)});
  ask(3, Watch{"prefix", true, 0, 0, std::chrono::seconds(60)});
  EXPECT_EQ(job_.audit(), std::nullopt);
  for (std::uint64_t n = 1; n <= 3; ++n) job_.disconnect({1, n}, now_);
  pass(std::chrono::hours(1));
  EXPECT_EQ(job_.stats().sessions_known, 0U);
  EXPECT_EQ(job_.audit(), std::nullopt);
}

}  // namespace

}  // namespace c10dd::core
