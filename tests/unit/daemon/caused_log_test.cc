// SPDX-License-Identifier: Apache-2.0
// How many lines of the log each client can cause, and that the others are counted.
#include "daemon/shard/caused_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>
#include <string>

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LogPacesTest : public testing::Test {
 protected:
  /// Returns how many of `lines` were written.
  unsigned written(const std::string& cause, const std::string& event, unsigned lines) {
    unsigned count = 0;
    for (unsigned i = 0; i < lines; ++i) count += paces_.next(cause, event, now_) ? 1 : 0;
    return count;
  }

  LogPaces paces_;
  LogPaces::Time now_{std::chrono::hours(1)};
};

TEST_F(LogPacesTest, ACauseHasABurstThenARate) {
  EXPECT_EQ(written("alice", "a", 1'000), LogPaces::kOfKind.burst);
  now_ += seconds(1);
  const auto next = paces_.next("alice", "a", now_);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->alike, 1'000 - LogPaces::kOfKind.burst) << "the next line says what was left out";
  EXPECT_EQ(written("alice", "a", 1'000), 4U);
  now_ += seconds(60);
  EXPECT_EQ(written("alice", "a", 1'000), LogPaces::kOfKind.burst);
}

TEST_F(LogPacesTest, ACauseDoesNotHideTheLinesOfOthersOrOtherLines) {
  for (int i = 0; i < 10; ++i) {
    written("eve", "a", 10'000);
    EXPECT_EQ(written("alice", "a", 1), 1U);
    EXPECT_EQ(written("eve", "b", 1), 1U) << "another event of the same cause";
    now_ += seconds(1);
  }
}

TEST_F(LogPacesTest, AllEventsOfACauseHaveARateTogether) {
  unsigned all = 0;
  for (int event = 0; event < 100; ++event) all += written("eve", std::to_string(event), 100);
  EXPECT_EQ(all, LogPaces::kOfCause.burst);
  now_ += seconds(10);
  all = 0;
  for (int event = 0; event < 100; ++event) all += written("eve", std::to_string(event), 100);
  EXPECT_EQ(all, LogPaces::kOfCause.burst);
}

TEST_F(LogPacesTest, AllCausesHaveARateTogether) {
  unsigned all = 0;
  for (int cause = 0; cause < 5'000; ++cause) all += written(std::to_string(cause), "a", 20);
  EXPECT_EQ(all, LogPaces::kOfAll.burst);
  EXPECT_LE(paces_.causes(), LogPaces::kCauses + 1);
}

TEST_F(LogPacesTest, WhatACauseLeftOutIsSaidWhenItHasGone) {
  written("eve", "a", 120);
  now_ += LogPaces::kForgotten + seconds(1);
  const auto next = paces_.next("alice", "b", now_);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->alike, 0U);
  EXPECT_EQ(next->others, 120 - LogPaces::kOfKind.burst);
  EXPECT_EQ(paces_.next("alice", "b", now_)->others, 0U) << "once";
  EXPECT_EQ(paces_.causes(), 1U);
}

TEST(CausedLog, SaysWhatWasLeftOut) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(out));
  logger->set_pattern("%l %v");
  spdlog::set_default_logger(logger);
  log_paces().clear();
  detail::write_caused(LogLevel::warn, "event=a b=c", {});
  detail::write_caused(LogLevel::info, "event=a b=c", {3, 5});
  log_caused("eve", LogLevel::info, "event=d job={}", "e f");
  spdlog::set_default_logger(before);
  EXPECT_EQ(out.str(),
            "warning event=a b=c\n"
            "info event=log_lines_skipped count=5\n"
            "info event=a b=c skipped=3\n"
            "info event=d job=\"e f\"\n");
  EXPECT_EQ(detail::event_of(LogLevel::info, "event=a b"), "0event=a");
  EXPECT_NE(detail::event_of(LogLevel::warn, "event=a"),
            detail::event_of(LogLevel::info, "event=a"));
}

}  // namespace
}  // namespace c10dd::daemon
