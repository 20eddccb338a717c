// SPDX-License-Identifier: Apache-2.0
// What it costs to look at the process groups of a large job.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include "daemon/core/reports/wait_fors.h"
#include "protocol/diagnosis.h"
#include "tests/unit/core/activity_reports.h"
#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

/// The tables of a job in which all ranks wait for one, in 8 groups.
class LargeJob {
 public:
  static constexpr Rank kSize = 4'096;
  static constexpr std::uint64_t kGroups = 8;

  explicit LargeJob(bool differ) {
    Rows rows;
    for (Rank rank = 0; rank < kSize; ++rank) {
      Hello hello;
      hello.session = {1, rank + 1};
      hello.host = "node" + std::to_string(rank / 8);
      hello.pid = 1000 + rank;
      hello.rank = rank;
      sessions_.open(hello, {{}, rank + 1}, 1, kNow, rows);
      Activity activity;
      for (std::uint64_t group = 1; group <= kGroups; ++group) {
        activity.opened.push_back(opened_group(group, rank, kSize));
        const std::uint64_t sequence = differ ? rank + 1 : 100;
        activity.groups.push_back(rank == 17 ? ended(group, 1)
                                             : inside(group, unfinished(sequence, 2s)));
      }
      EXPECT_TRUE(activity_.report(hello.session, activity, kNow));
    }
  }
  JobWaits look() const {
    return wait_fors({pending_, keys_, launch_, {sessions_, barriers_, groups_, kNow}, activity_});
  }
  static constexpr TimePoint kNow{1h};

 private:
  Quotas quotas_;
  Pending pending_;
  KeySpace keys_{quotas_};
  LaunchRanks launch_;
  core::Sessions sessions_{quotas_};
  Barriers barriers_;
  Groups groups_;
  CollectiveActivity activity_{sessions_};
};

TEST(CollectiveWaitsCost, ALookAt4096RanksIn8GroupsTakesAFewMilliseconds) {
  for (const bool differ : {false, true}) {
    const LargeJob job(differ);
    constexpr int kLooks = 20;
    std::clock_t looks = 0;
    std::clock_t diagnoses = 0;
    for (int i = 0; i < kLooks; ++i) {
      const std::clock_t began = std::clock();
      const JobWaits found = job.look();
      const std::clock_t collected = std::clock();
      const Diagnosis diagnosis = diagnose(found.wait_fors, {}, found.ranks, LargeJob::kNow);
      looks += collected - began;
      diagnoses += std::clock() - collected;
      ASSERT_EQ(diagnosis.ranks, std::vector<Rank>{17});
      ASSERT_TRUE(found.unsettled.empty());
    }
    const auto milliseconds = [](std::clock_t time) {
      return 1e3 / kLooks * static_cast<double>(time) / CLOCKS_PER_SEC;
    };
    std::printf("%s: %.2f ms to collect, %.2f ms to diagnose\n",
                differ ? "each rank in another collective" : "all in one collective",
                milliseconds(looks), milliseconds(diagnoses));
    EXPECT_LT(milliseconds(looks), (differ ? 200 : 20) * test::kSlowdown);
  }
}

}  // namespace
}  // namespace c10dd::core
