// SPDX-License-Identifier: Apache-2.0
// Three sessions that report the activity of their process groups, for tests of what is kept of it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "daemon/core/reports/collective_activity.h"
#include "tests/unit/core/activity_reports.h"
#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {

inline constexpr SessionId kThird{0, 3};

class ReportingSessions : public testing::Test {
 protected:
  ReportingSessions() {
    for (const SessionId& id : {kFirst, kSecond, kThird}) connect(id);
  }
  void connect(const SessionId& id) {
    Hello hello;
    hello.session = id;
    hello.host = "host-" + std::to_string(id.low);
    hello.pid = 100 + id.low;
    hello.rank = static_cast<std::int64_t>(id.low) - 1;
    sessions_.open(hello, {{}, id.low}, 1, now_, rows_);
  }
  Result<CollectiveActivity::Reported> report(const SessionId& id, const Activity& what) {
    auto result = activity_.report(id, what, now_);
    EXPECT_EQ(activity_.audit(), std::nullopt);
    return result;
  }
  CollectiveActivity::Reported take(const SessionId& id, const Activity& what) {
    const auto result = report(id, what);
    EXPECT_TRUE(result) << result.error().detail;
    return result ? *result : CollectiveActivity::Reported{};
  }
  /// Expects that a report fails, and changes nothing.
  void refuses(const SessionId& id, const Activity& what, Code code, const std::string& text) {
    const std::size_t groups = activity_.groups().size();
    const std::size_t reporters = activity_.reporters();
    const auto result = report(id, what);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(name_of(result.error().code), name_of(code));
    EXPECT_EQ(result.error().detail, "activity: " + text);
    EXPECT_EQ(activity_.groups().size(), groups);
    EXPECT_EQ(activity_.reporters(), reporters);
  }
  void refuses(const Activity& what, Code code, const std::string& text) {
    refuses(kFirst, what, code, text);
  }
  void end(const SessionId& id, Ending ending) {
    activity_.end(id, ending);
    sessions_.close(id, ending, false, 1, now_, rows_);
    EXPECT_EQ(activity_.audit(), std::nullopt);
  }
  /// Opens group 7 as ranks 0 and 1.
  void open_both() {
    take(kFirst, opens({opened_group(7, 0, 2)}));
    take(kSecond, opens({opened_group(7, 1, 2)}));
  }
  const ActivityGroup& group(std::uint64_t id = 7) const { return activity_.groups().at(id); }
  const RankActivity& rank(Rank rank, std::uint64_t id = 7) const { return group(id).ranks[rank]; }

  Quotas quotas_;
  Rows rows_;
  TimePoint now_ = at(3600);
  Sessions sessions_{quotas_};
  CollectiveActivity activity_{sessions_};
};

}  // namespace c10dd::core
